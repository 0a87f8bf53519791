#include <cstring>

#include "conformance/engine_suite.h"
#include "engines/local/entry.h"
#include "memory/sealed_memory.h"

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

/// Memory that peers map, at an odd address.
class MappableMemory : public TestMemory {
public:
    explicit MappableMemory(std::size_t length)
        : memory_(SealedMemory::create(length + 1, false).value()), length_(length) {}

    nixlBlobDesc
    desc() const override {
        return nixlBlobDesc(memory_->address() + 1, length_, 0);
    }

    void
    store(std::size_t offset, const std::string &bytes) override {
        std::memcpy(at(offset), bytes.data(), bytes.size());
    }

    std::string
    load(std::size_t offset, std::size_t length) const override {
        return std::string(at(offset), length);
    }

private:
    char *
    at(std::size_t offset) const {
        return reinterpret_cast<char *>(memory_->address()) + 1 + offset;
    }

    const std::shared_ptr<const SealedMemory> memory_;
    const std::size_t length_;
};

EngineTraits
mappedTraits() {
    EngineTraits traits = localTraits();
    traits.name = "LOCAL_mapped";
    traits.memories = {
        {DRAM_SEG, [](std::size_t length) { return std::make_unique<MappableMemory>(length); }}};
    return traits;
}

} // namespace

} // namespace nixl::conformance

NIXL_INSTANTIATE_ENGINE_SUITE(Local, localTraits());
NIXL_INSTANTIATE_ENGINE_SUITE(LocalMapped, mappedTraits());
