// The suite's main(), the fixtures, and the role of the other process.
#include <unistd.h>

#include <cstring>
#include <iostream>
#include <map>
#include <stdexcept>

#include "conformance/engine_suite.h"
#include "conformance/peer_side.h"

namespace nixl::conformance {

namespace {

std::map<std::string, EngineTraits> &
knownTraits() {
    static std::map<std::string, EngineTraits> traits;
    return traits;
}

} // namespace

bool
addTraits(const EngineTraits &traits) {
    return knownTraits().emplace(traits.name, traits).second;
}

const EngineTraits &
findTraits(const std::string &name) {
    const auto found = knownTraits().find(name);
    if (found == knownTraits().end())
        throw std::runtime_error("no engine traits called " + name);
    return found->second;
}

EngineSuite::EngineSuite() {
    for (const std::string &text : GetParam().allowedLog)
        log_.allow(text);
}

PairSuite::PairSuite() {
    for (const std::string &text : GetParam().engine.allowedLog)
        log_.allow(text);
}

bool
PairSuite::noticesEnd() {
    const PairTraits &traits = GetParam();
    return traits.engine.noticesEnds == NoticesEnds::kOfAll ||
           (traits.engine.noticesEnds == NoticesEnds::kOfProcesses && traits.otherProcess);
}

void
PairSuite::SetUp() {
    const auto [traits, otherProcess] = GetParam();
    if (!otherProcess && !traits.twoAgents)
        GTEST_SKIP() << traits.name << " does not connect agents of one process";
    if (otherProcess && !traits.otherProcess)
        GTEST_SKIP() << traits.name << " does not connect processes of one host";
}

std::vector<PairTraits>
pairs(const EngineTraits &traits) {
    return {{traits, false}, {traits, true}};
}

std::string
engineName(const ::testing::TestParamInfo<EngineTraits> &info) {
    return info.param.name;
}

std::string
pairName(const ::testing::TestParamInfo<PairTraits> &info) {
    return info.param.engine.name + (info.param.otherProcess ? "TwoProcesses" : "OneProcess");
}

void
PrintTo(const EngineTraits &traits, std::ostream *out) {
    *out << traits.name;
}

void
PrintTo(const PairTraits &traits, std::ostream *out) {
    *out << traits.engine.name << (traits.otherProcess ? ", two processes" : ", one process");
}

} // namespace nixl::conformance

/// Read by AddressSanitizer. A plugin brings libnixl.so, whose constants this program has too: by intent, not
/// by mistake.
extern "C" __attribute__((visibility("default"))) const char *
__asan_default_options() {
    return "detect_odr_violation=0";
}

/// Read by LeakSanitizer. UCX loses its table of a peer's segments of shared memory when that peer ends.
extern "C" __attribute__((visibility("default"))) const char *
__lsan_default_suppressions() {
    return "leak:uct_mm_ep_attach_remote_seg\n";
}

int
main(int argc, char **argv) {
    if (argc == 4 && std::strcmp(argv[1], "--conformance-peer") == 0) {
        try {
            return nixl::conformance::servePeer(nixl::conformance::findTraits(argv[2]), argv[3],
                                                STDIN_FILENO);
        } catch (const std::exception &error) {
            std::cerr << "conformance peer: " << error.what() << "\n";
            return 1;
        }
    }
    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
