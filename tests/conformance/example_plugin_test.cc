// The plugin of examples/plugin, through the adapter for south-bound plugins; nothing if examples are not
// built.
#if defined(NIXL_EXAMPLE_PLUGIN)
#include <stdexcept>

#include "conformance/engine_suite.h"
#include "engines/south_bound/entry.h"

namespace nixl::conformance {

namespace {

EngineTraits
exampleTraits() {
    EngineTraits traits;
    traits.name = "ExamplePlugin";
    traits.makeFactory = []() -> std::shared_ptr<EngineFactory> {
        const Result<std::shared_ptr<DynamicLibrary>> library = DynamicLibrary::open(NIXL_EXAMPLE_PLUGIN);
        if (!library.ok())
            throw std::runtime_error(library.status().message());
        const Result<std::shared_ptr<EngineFactory>> factory = southBoundAdapter()(library.value());
        if (!factory.ok())
            throw std::runtime_error(factory.status().message());
        return factory.value();
    };
    // Many chunks per transfer, so that a cancel meets it half way.
    traits.params = {{"chunk_size", "65536"}};
    return traits;
}

} // namespace

} // namespace nixl::conformance

NIXL_INSTANTIATE_ENGINE_SUITE(ExamplePlugin, exampleTraits());
#endif
