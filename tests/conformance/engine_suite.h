// The conformance suite: what every engine keeps, written once on engine/engine.h.
//
// A file per engine says how to make one and instantiates the suite, nothing more:
//
//     EngineTraits
//     posixTraits() { ... }
//     NIXL_INSTANTIATE_ENGINE_SUITE(Posix, posixTraits());
//
// What an engine cannot do is skipped, with the reason.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "support/expect_log.h"
#include "util/options.h"

namespace nixl::conformance {

/// A piece of memory of some kind that a test can look into.
class TestMemory {
public:
    virtual ~TestMemory() = default;
    virtual nixlBlobDesc desc() const = 0;
    virtual void store(std::size_t offset, const std::string &bytes) = 0;
    virtual std::string load(std::size_t offset, std::size_t length) const = 0;
};

struct MemoryTraits {
    nixl_mem_t kind;
    std::function<std::unique_ptr<TestMemory>(std::size_t length)> allocate;
};

/// DRAM_SEG from the heap, filled with zeros, at an odd address.
MemoryTraits hostMemory();

/// Of which peers an agent learns that they are gone.
enum class NoticesEnds { kOfAll, kOfProcesses, kNever };

struct EngineTraits {
    std::string name; ///< unique; also tells the other process which engine to make
    std::function<std::shared_ptr<EngineFactory>()> makeFactory;
    nixl_b_params_t params;
    Options options;
    std::vector<MemoryTraits> memories{hostMemory()};
    bool twoAgents = true;        ///< agents of one process reach each other
    bool otherProcess = false;    ///< agents of two processes of one host reach each other
    bool checksTargets = true;    ///< the target refuses accesses to memory that it has not registered
    std::size_t optionalInfo = 0; ///< bytes at the end of the connection info that peers need not understand
    NoticesEnds noticesEnds = NoticesEnds::kOfAll;
    /// A notification of a transfer leaves although the initiator makes no call after the post.
    bool notifiesWithoutPolling = true;
    std::vector<std::string> allowedLog; ///< WARN and ERROR lines that are no failure
};

/// Makes the engine known to the other process, which is this program started again. Called by the macro
/// below.
bool addTraits(const EngineTraits &traits);

/// One agent.
class EngineSuite : public ::testing::TestWithParam<EngineTraits> {
protected:
    EngineSuite();
    test::ExpectLog log_;
};

/// Two agents, in one process or in two.
struct PairTraits {
    EngineTraits engine;
    bool otherProcess;
};

class PairSuite : public ::testing::TestWithParam<PairTraits> {
protected:
    PairSuite();
    /// Skips what the engine cannot do.
    void SetUp() override;
    /// Whether the initiator learns that its target is gone.
    static bool noticesEnd();
    test::ExpectLog log_;
};

std::vector<PairTraits> pairs(const EngineTraits &traits);
std::string engineName(const ::testing::TestParamInfo<EngineTraits> &info);
std::string pairName(const ::testing::TestParamInfo<PairTraits> &info);
void PrintTo(const EngineTraits &traits, std::ostream *out);
void PrintTo(const PairTraits &traits, std::ostream *out);

} // namespace nixl::conformance

#define NIXL_INSTANTIATE_ENGINE_SUITE(name, traits)                                                          \
    namespace nixl::conformance {                                                                            \
    [[maybe_unused]] static const bool added##name = addTraits(traits);                                      \
    INSTANTIATE_TEST_SUITE_P(name, EngineSuite, ::testing::Values(traits), engineName);                      \
    INSTANTIATE_TEST_SUITE_P(name, PairSuite, ::testing::ValuesIn(pairs(traits)), pairName);                 \
    }                                                                                                        \
    static_assert(true)
