/**
 * @file backend_plugin.h
 * How a plugin introduces itself. A plugin is a shared library libplugin_NAME.so that exports
 *
 *     extern "C" NIXL_PLUGIN_EXPORT nixlBackendPlugin *
 *     nixl_plugin_init() {
 *         return nixlBackendPluginCreator<MyEngine>::create(NIXL_PLUGIN_API_VERSION, "NAME", "1.0", {},
 * {DRAM_SEG});
 *     }
 *
 *     extern "C" NIXL_PLUGIN_EXPORT void
 *     nixl_plugin_fini() {}
 *
 * nixl_plugin_init may be called several times; what it returns is valid until the process ends, nullptr
 * means that the plugin cannot work here. Libraries are never unloaded, so nixl_plugin_fini is not called.
 *
 * Classes cross the library boundary here, so a plugin must be compiled against the headers of the library
 * that loads it; the loader checks that by nixl_open_plugin_abi.
 */
#ifndef NIXL_BACKEND_PLUGIN_H
#define NIXL_BACKEND_PLUGIN_H

#include <concepts>
#include <exception>
#include <memory>
#include <string>

#include "backend/backend_engine.h"
#include "utils/common/nixl_log.h"

#if defined(__GNUC__)
#define NIXL_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define NIXL_PLUGIN_EXPORT
#endif

/** Version of nixlBackendPlugin; a plugin of another one is refused. */
#define NIXL_PLUGIN_API_VERSION 1

/** Layout of the classes in these headers. It is not the interface's version: other implementations of the
 * same interface have other layouts and do not export this symbol. */
#define NIXL_OPEN_PLUGIN_ABI 1

#ifndef NIXL_PLUGIN_HOST // the library that loads plugins must not look like one
extern "C" {
/** Planted in every plugin that is compiled against these headers. */
extern const int nixl_open_plugin_abi __attribute__((weak, visibility("default")));
const int nixl_open_plugin_abi __attribute__((used)) = NIXL_OPEN_PLUGIN_ABI;
}
#endif

/** What nixl_plugin_init returns. */
struct nixlBackendPlugin {
    int api_version; ///< NIXL_PLUGIN_API_VERSION
    /** Makes an engine; nullptr if it could not be made. */
    nixlBackendEngine *(*create_engine)(const nixlBackendInitParams *init_params);
    void (*destroy_engine)(nixlBackendEngine *engine);
    const char *(*get_plugin_name)();         ///< NAME of libplugin_NAME.so
    const char *(*get_plugin_version)();      ///< for people; may be null
    nixl_b_params_t (*get_backend_options)(); ///< parameters and their defaults; may be null
    nixl_mem_list_t (*get_backend_mems)();    ///< kinds of memory; may be null
};

/**
 * Writes the description for an engine class that is constructed from `const nixlBackendInitParams *`, or
 * that has a static create(const nixlBackendInitParams &) which returns a std::unique_ptr. An exception of
 * either is logged and means that the engine could not be made.
 *
 * Hidden: each library has its own, also if two plugins call their engines alike.
 */
template<typename Engine> class __attribute__((visibility("hidden"))) nixlBackendPluginCreator {
public:
    static nixlBackendPlugin *
    create(int api_version, const char *name, const char *version, const nixl_b_params_t &params = {},
           const nixl_mem_list_t &mems = {}) {
        static Description description{name, version, params, mems};
        static nixlBackendPlugin plugin{
            api_version,
            makeEngine,
            [](nixlBackendEngine *engine) { delete engine; },
            [] { return description.name.c_str(); },
            [] { return description.version.c_str(); },
            [] { return description.params; },
            [] { return description.mems; },
        };
        return &plugin;
    }

private:
    struct Description {
        std::string name;
        std::string version;
        nixl_b_params_t params;
        nixl_mem_list_t mems;
    };

    static nixlBackendEngine *
    makeEngine(const nixlBackendInitParams *init_params) {
        try {
            if constexpr (requires {
                              {
                                  Engine::create(*init_params)
                              } -> std::convertible_to<std::unique_ptr<nixlBackendEngine>>;
                          })
                return std::unique_ptr<nixlBackendEngine>(Engine::create(*init_params)).release();
            else
                return new Engine(init_params);
        } catch (const std::exception &error) {
            NIXL_ERROR << "engine " << init_params->type << " cannot start: " << error.what();
        } catch (...) {
            NIXL_ERROR << "engine " << init_params->type << " cannot start: it threw something unknown";
        }
        return nullptr;
    }
};

#endif
