// What comes from a peer may be cut off, forged or noise.
#include <gmock/gmock.h>

#include "conformance/pair.h"

namespace nixl::conformance {

namespace {

/// Noise and cut-off forms of bytes that would be right.
std::vector<std::string>
wrongForms(const std::string &right) {
    std::vector<std::string> wrong;
    for (std::size_t length = 0; length < right.size(); ++length)
        wrong.push_back(right.substr(0, length));
    for (unsigned seed = 0; seed < 50; ++seed) {
        wrong.push_back(pattern(seed, seed));
        wrong.push_back(pattern(right.size(), 100 + seed));
    }
    wrong.push_back(pattern(1 << 16, 1));
    return wrong;
}

} // namespace

TEST_P(PairSuite, ConnectionInfoThatIsWrongIsRefused) {
    Pair pair(GetParam());
    const std::string right = pair.peer->connectionInfo();
    ASSERT_FALSE(right.empty());
    for (const std::string &info : wrongForms(right)) {
        if (info == right.substr(0, right.size() - GetParam().engine.optionalInfo))
            continue;
        const Result<std::shared_ptr<Peer>> peer = pair.side.engine().loadPeer("stranger", info);
        ASSERT_FALSE(peer.ok()) << info.size() << " of " << right.size() << " bytes";
        EXPECT_FALSE(peer.status().message().empty());
    }
    // Nothing of that disturbs the peer that is known.
    const Status status = pair.side.engine().connect(*pair.known);
    EXPECT_TRUE(status.ok()) << status.message();
}

TEST_P(PairSuite, ConnectionInfoWithFlippedBitsDoesNoHarm) {
    Pair pair(GetParam());
    const std::string right = pair.peer->connectionInfo();
    for (std::size_t i = 0; i < right.size(); ++i) {
        std::string info = right;
        info[i] = static_cast<char>(info[i] ^ 0x41);
        const Result<std::shared_ptr<Peer>> peer = pair.side.engine().loadPeer("stranger", info);
        EXPECT_TRUE(peer.ok() || !peer.status().message().empty()) << "byte " << i;
    }
    const Status status = pair.side.engine().connect(*pair.known);
    EXPECT_TRUE(status.ok()) << status.message();
}

TEST_P(PairSuite, PublicDataThatIsWrongIsRefused) {
    Pair pair(GetParam());
    const PeerMemory far = pair.peer->allocate(1000, 0);
    const std::string right = far.desc.metaInfo;
    if (right.empty())
        GTEST_SKIP() << GetParam().engine.name << " tells peers nothing about its regions";
    ASSERT_TRUE(pair.side.engine().connect(*pair.known).ok());
    for (const std::string &data : wrongForms(right)) {
        const Result<std::unique_ptr<RemoteRegion>> region =
            pair.side.engine().loadRegion(*pair.known, far.desc, far.kind, data);
        ASSERT_FALSE(region.ok()) << data.size() << " of " << right.size() << " bytes";
        EXPECT_FALSE(region.status().message().empty());
    }
    const std::unique_ptr<Registered> near = pair.side.allocate(1000);
    Reached reached(pair, far);
    Transfer transfer(pair.side.engine(), NIXL_WRITE, *near, reached.target(), {{0, 0, 1000}});
    EXPECT_EQ(transfer.run().code, NIXL_SUCCESS);
}

TEST_P(PairSuite, NothingBeyondTheRegionIsReached) {
    if (!GetParam().engine.checksTargets)
        GTEST_SKIP() << "this lane reads where the initiator says";
    Pair pair(GetParam());
    const PeerMemory far = pair.peer->allocate(1000, 0);
    const std::unique_ptr<Registered> near = pair.side.allocate(100000);
    near->memory().store(0, std::string(100000, 'n'));
    for (const std::size_t claimed : {1001, 100000}) {
        PeerMemory forged = far;
        forged.desc.len = claimed;
        ASSERT_TRUE(pair.side.engine().connect(*pair.known).ok());
        Result<std::unique_ptr<RemoteRegion>> region =
            pair.side.engine().loadRegion(*pair.known, forged.desc, forged.kind, forged.desc.metaInfo);
        if (!region.ok())
            continue;
        const Target target{region.value().get(), forged.desc, forged.kind, "target", pair.known.get()};
        Transfer transfer(pair.side.engine(), NIXL_READ, *near, target, {{0, 0, claimed}});
        const Progress progress = transfer.run();
        EXPECT_LT(progress.code, 0) << "read " << claimed << " bytes of a region of 1000";
    }
    // The peer is still there for those who keep to the rules.
    Reached reached(pair, far);
    Transfer transfer(pair.side.engine(), NIXL_READ, *near, reached.target(), {{0, 0, 1000}});
    EXPECT_EQ(transfer.run().code, NIXL_SUCCESS);
    EXPECT_EQ(near->memory().load(0, 1000), std::string(1000, '\0'));
}

} // namespace nixl::conformance
