// A loadable engine for the tests of the registry. What it gets wrong is chosen by macros:
// MODULE_NAME what it calls itself, MODULE_ABI the interface it claims, MODULE_FACTORY what makes its
// factory, MODULE_NETWORK whether it is a network engine. It never starts.
#include "engine/registry.h"

#include <stdexcept>

#ifndef MODULE_ABI
#define MODULE_ABI nixl::kEngineAbi
#endif
#ifndef MODULE_NETWORK
#define MODULE_NETWORK false
#endif
#ifndef MODULE_FACTORY
#define MODULE_FACTORY makeFactory
#endif

namespace {

class Factory : public nixl::EngineFactory {
public:
    const nixl::EngineInfo &
    info() const override {
        static const nixl::EngineInfo info{.name = MODULE_NAME,
                                           .version = "1.2.3",
                                           .memories = {DRAM_SEG},
                                           .options = {},
                                           .exclusiveGroup = {},
                                           .threadsOption = {},
                                           .network = MODULE_NETWORK};
        return info;
    }

    nixl::Result<std::unique_ptr<nixl::Engine>>
    create(const nixl::EngineConfig &) const override {
        return nixl::Status(NIXL_ERR_BACKEND, "created only in name");
    }
};

[[maybe_unused]] nixl::EngineFactory *
makeFactory() {
    return new Factory;
}

[[maybe_unused]] nixl::EngineFactory *
makeNothing() {
    return nullptr;
}

[[maybe_unused]] nixl::EngineFactory *
throwUp() {
    throw std::runtime_error("no driver");
}

} // namespace

extern "C" __attribute__((visibility("default"))) const nixl::EngineModule *
nixl_engine_init() {
    static const nixl::EngineModule module{MODULE_ABI, MODULE_FACTORY};
    return &module;
}
