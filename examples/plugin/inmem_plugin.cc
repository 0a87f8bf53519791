// The functions that a plugin exports.
#include "backend/backend_plugin.h"
#include "inmem_engine.h"

extern "C" NIXL_PLUGIN_EXPORT nixlBackendPlugin *
nixl_plugin_init() {
    return nixlBackendPluginCreator<InMemEngine>::create(
        NIXL_PLUGIN_API_VERSION, "INMEM", "1.0", {{"chunk_size", InMemEngine::kDefaultChunk}}, {DRAM_SEG});
}

extern "C" NIXL_PLUGIN_EXPORT void
nixl_plugin_fini() {}
