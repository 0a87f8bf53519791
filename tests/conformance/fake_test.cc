#include "conformance/engine_suite.h"
#include "support/fake_engine.h"

namespace nixl::conformance {

namespace {

EngineTraits
fakeTraits(const std::string &name, FakeCompletion completion) {
    EngineTraits traits;
    traits.name = name;
    traits.makeFactory = [completion] {
        auto settings = std::make_shared<FakeSettings>();
        settings->edit([&](FakeScript &script) { script.completion = completion; });
        return std::make_shared<FakeEngineFactory>(std::move(settings));
    };
    return traits;
}

} // namespace

} // namespace nixl::conformance

NIXL_INSTANTIATE_ENGINE_SUITE(Fake, fakeTraits("Fake", FakeCompletion::kInline));
NIXL_INSTANTIATE_ENGINE_SUITE(FakeWorker, fakeTraits("FakeWorker", FakeCompletion::kWorker));
