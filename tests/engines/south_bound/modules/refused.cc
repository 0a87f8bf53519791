// Libraries that the adapter must refuse; which one is chosen by a macro.
#include <cstdlib>

#if defined(MODULE_FOREIGN)
#define NIXL_PLUGIN_HOST // without the mark: as if compiled against other headers
#elif defined(MODULE_OTHER_ABI)
#define NIXL_PLUGIN_HOST
extern "C" {
extern const int nixl_open_plugin_abi __attribute__((visibility("default")));
const int nixl_open_plugin_abi = 999;
}
#endif

#include "backend/backend_plugin.h"

#if !defined(MODULE_NO_PLUGIN)
extern "C" NIXL_PLUGIN_EXPORT nixlBackendPlugin *
nixl_plugin_init() {
#if defined(MODULE_UNWILLING)
    return nullptr;
#elif defined(MODULE_OTHER_API)
    static nixlBackendPlugin plugin{};
    plugin.api_version = 999;
    return &plugin;
#else
    std::abort(); // its classes have another layout: nothing of it may run
#endif
}
#endif
