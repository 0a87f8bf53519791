#include "engine/process_registry.h"

#include <dlfcn.h>

#include <map>

#include "util/mutex.h"

namespace nixl {

namespace {

struct Registries {
    Mutex mutex;
    std::map<std::string, std::shared_ptr<EngineRegistry>> byDirectory NIXL_GUARDED_BY(mutex);
    std::shared_ptr<EngineRegistry> override_ NIXL_GUARDED_BY(mutex);
};

Registries &
registries() {
    static auto *all = new Registries; // never destroyed: engines may outlive static destructors
    return *all;
}

/// The folder `plugins` beside the file that contains this code.
std::string
ownPluginDirectory() {
    Dl_info info{};
    if (!dladdr(reinterpret_cast<void *>(&ownPluginDirectory), &info) || !info.dli_fname)
        return {};
    const std::string file = info.dli_fname;
    const auto slash = file.rfind('/');
    return slash == std::string::npos ? "plugins" : file.substr(0, slash) + "/plugins";
}

} // namespace

std::vector<std::string>
pluginDirectories(const std::string &pluginDir) {
    std::vector<std::string> directories;
    for (const std::string &directory : {pluginDir, ownPluginDirectory()}) {
        if (!directory.empty())
            directories.push_back(directory);
    }
    return directories;
}

std::shared_ptr<EngineRegistry>
processRegistry(const std::string &pluginDir) {
    Registries &all = registries();
    LockGuard lock(all.mutex);
    if (all.override_)
        return all.override_;
    std::shared_ptr<EngineRegistry> &registry = all.byDirectory[pluginDir];
    if (!registry) {
        BuiltinEngines builtin = builtinEngines();
        registry = std::make_shared<EngineRegistry>(std::move(builtin.factories), std::move(builtin.adapters),
                                                    pluginDirectories(pluginDir));
    }
    return registry;
}

void
overrideProcessRegistry(std::shared_ptr<EngineRegistry> registry) {
    Registries &all = registries();
    LockGuard lock(all.mutex);
    all.override_ = std::move(registry);
}

} // namespace nixl
