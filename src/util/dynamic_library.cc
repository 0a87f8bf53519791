#include "util/dynamic_library.h"

#include <dlfcn.h>

namespace nixl {

Result<std::shared_ptr<DynamicLibrary>>
DynamicLibrary::open(const std::string &path) {
    void *handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) {
        const char *why = ::dlerror();
        return Status::error(NIXL_ERR_NOT_FOUND, "cannot load '", path, "': ", why ? why : "no reason given");
    }
    return std::shared_ptr<DynamicLibrary>(new DynamicLibrary(path, handle));
}

void *
DynamicLibrary::symbol(const char *name) const {
    return ::dlsym(handle_, name);
}

} // namespace nixl
