#include "engine/registry.h"

#include <strings.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>

#include "util/log.h"
#include "util/mutex.h"

namespace nixl {

namespace {

namespace fs = std::filesystem;

using FactoryResult = Result<std::shared_ptr<EngineFactory>>;

constexpr std::string_view kPrefix = "libplugin_";
constexpr std::string_view kSuffix = ".so";
constexpr std::size_t kLongestName = 64;

/// The engine that a file of this name holds, empty if it is not named like a plugin.
std::string
engineName(const std::string &file) {
    if (file.size() <= kPrefix.size() + kSuffix.size() || file.compare(0, kPrefix.size(), kPrefix) != 0 ||
        file.compare(file.size() - kSuffix.size(), kSuffix.size(), kSuffix) != 0)
        return {};
    const auto isPlain = [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
               c == '-';
    };
    std::string name = file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size());
    if (name.size() > kLongestName || !std::all_of(name.begin(), name.end(), isPlain))
        return {};
    return name;
}

FactoryResult
refused(const std::string &path, const Status &why) {
    return Status::error(NIXL_ERR_NOT_FOUND, "'", path, "' cannot be used: ", why.message());
}

FactoryResult
fromModule(const EngineModule *module, const std::string &name) {
    if (!module)
        return Status::error(NIXL_ERR_NOT_FOUND, "its nixl_engine_init returned nothing");
    if (module->abi != kEngineAbi)
        return Status::error(NIXL_ERR_NOT_FOUND, "it was built for engine interface ", module->abi,
                             ", this library has ", kEngineAbi);
    std::shared_ptr<EngineFactory> factory(module->createFactory ? module->createFactory() : nullptr);
    if (!factory)
        return Status::error(NIXL_ERR_NOT_FOUND, "it made no engine factory");
    if (factory->info().name != name)
        return Status::error(NIXL_ERR_NOT_FOUND, "it holds the engine '", factory->info().name, "', not '",
                             name, "'");
    return factory;
}

FactoryResult
fromLibrary(const std::string &path, const std::string &name, const std::vector<ModuleAdapter> &adapters) {
    // Opening a FIFO would block.
    std::error_code error;
    if (!fs::is_regular_file(path, error))
        return Status::error(NIXL_ERR_NOT_FOUND, "it is not a regular file");
    Result<std::shared_ptr<DynamicLibrary>> library = DynamicLibrary::open(path);
    if (!library.ok())
        return library.status();
    if (const auto init = library.value()->function<const EngineModule *(*)()>("nixl_engine_init"))
        return fromModule(init(), name);
    for (const ModuleAdapter &adapter : adapters) {
        FactoryResult factory = adapter(library.value());
        if (!factory.ok() || factory.value())
            return factory;
    }
    return Status::error(NIXL_ERR_NOT_FOUND, "it exports neither nixl_engine_init nor nixl_plugin_init");
}

/// Code of others runs while a library is loaded; whatever it throws ends here.
FactoryResult
load(const std::string &path, const std::string &name, const std::vector<ModuleAdapter> &adapters) {
    try {
        FactoryResult factory = fromLibrary(path, name, adapters);
        return factory.ok() ? factory : refused(path, factory.status());
    } catch (const std::exception &error) {
        return refused(path, Status(NIXL_ERR_NOT_FOUND, concat("it threw: ", error.what())));
    } catch (...) {
        return refused(path, Status(NIXL_ERR_NOT_FOUND, "it threw something that is no std::exception"));
    }
}

/// An engine that lies in files: the same name may be found in several directories.
struct FileEngine {
    std::vector<std::string> paths; ///< in the order of the directories; constant
    Mutex mutex;
    std::optional<FactoryResult> outcome NIXL_GUARDED_BY(mutex); ///< of the first find
};

std::string
join(const std::vector<std::string> &words) {
    std::string out;
    for (const std::string &word : words)
        out += (out.empty() ? "" : ", ") + word;
    return out.empty() ? "none" : out;
}

} // namespace

// Constant after construction, except what FileEngine guards itself.
struct EngineRegistry::State {
    std::vector<std::shared_ptr<EngineFactory>> builtin;
    std::vector<ModuleAdapter> adapters;
    std::vector<std::string> searched; ///< directories, for messages
    std::map<std::string, FileEngine> files;

    const std::shared_ptr<EngineFactory> *
    findBuiltin(const std::string &name) const {
        for (const std::shared_ptr<EngineFactory> &factory : builtin)
            if (factory->info().name == name)
                return &factory;
        return nullptr;
    }

    void
    list(const std::string &directory) {
        std::error_code error;
        for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
             entry.increment(error)) {
            const std::string name = engineName(entry->path().filename().string());
            if (name.empty())
                continue;
            if (findBuiltin(name))
                NIXL_LOG(kInfo, "'", entry->path().string(), "' is not used: ", name, " is built in");
            else
                files[name].paths.push_back(entry->path().string());
        }
        searched.push_back(error ? concat(directory, " (", error.message(), ")") : directory);
    }

    Status
    unknown(const std::string &name, const std::vector<std::string> &known) const {
        std::string hint;
        for (const std::string &other : known)
            if (::strcasecmp(other.c_str(), name.c_str()) == 0)
                hint = concat(" (names are case-sensitive; there is '", other, "')");
        return Status::error(NIXL_ERR_NOT_FOUND, "no engine '", name, "'", hint, "; known: ", join(known),
                             "; plugin directories searched: ", join(searched));
    }
};

EngineRegistry::EngineRegistry(std::vector<std::shared_ptr<EngineFactory>> builtin,
                               std::vector<ModuleAdapter> adapters, std::vector<std::string> directories)
    : state_(std::make_shared<State>()) {
    state_->builtin = std::move(builtin);
    state_->adapters = std::move(adapters);
    for (const std::string &directory : directories)
        if (!directory.empty())
            state_->list(directory);
}

std::vector<std::string>
EngineRegistry::names() const {
    std::vector<std::string> out;
    for (const std::shared_ptr<EngineFactory> &factory : state_->builtin)
        out.push_back(factory->info().name);
    for (const auto &entry : state_->files)
        out.push_back(entry.first);
    return out;
}

Result<std::shared_ptr<EngineFactory>>
EngineRegistry::find(const std::string &name) {
    if (const std::shared_ptr<EngineFactory> *factory = state_->findBuiltin(name))
        return *factory;
    const auto found = state_->files.find(name);
    if (found == state_->files.end())
        return state_->unknown(name, names());
    FileEngine &engine = found->second;
    LockGuard lock(engine.mutex);
    if (engine.outcome)
        return *engine.outcome;
    std::string refusals;
    for (const std::string &path : engine.paths) {
        FactoryResult factory = load(path, name, state_->adapters);
        if (factory.ok()) {
            if (!refusals.empty())
                NIXL_LOG(kWarn, "engine ", name, ": ", refusals, "; '", path, "' is used instead");
            engine.outcome = std::move(factory);
            return *engine.outcome;
        }
        refusals += (refusals.empty() ? "" : "; ") + factory.status().message();
    }
    engine.outcome = FactoryResult(Status::error(NIXL_ERR_NOT_FOUND, "engine ", name, ": ", refusals));
    return *engine.outcome;
}

std::shared_ptr<EngineFactory>
EngineRegistry::joining() const {
    for (const std::shared_ptr<EngineFactory> &factory : state_->builtin)
        if (factory->info().joins)
            return factory;
    return nullptr;
}

} // namespace nixl
