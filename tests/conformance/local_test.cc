#include "conformance/engine_suite.h"
#include "engines/local/entry.h"

namespace nixl::conformance {

namespace {

EngineTraits
localTraits() {
    EngineTraits traits;
    traits.name = "LOCAL";
    traits.makeFactory = makeLocalEngineFactory;
    traits.otherProcess = true;
    return traits;
}

} // namespace

} // namespace nixl::conformance

NIXL_INSTANTIATE_ENGINE_SUITE(Local, localTraits());
