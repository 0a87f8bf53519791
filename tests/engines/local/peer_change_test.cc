// What the engine tells of a peer's life, while nobody asks for anything.
#include "local_fixture.h"

#include <signal.h>

#include "util/mutex.h"

namespace nixl::local {

namespace {

/// Knows a target in another process and writes down what it is told.
class PeerChangeTest : public ::testing::Test {
protected:
    void
    SetUp() override {
        target_ = std::make_unique<TargetProcess>(4096, theirs());
        Options options;
        options.localConnectTimeout = 300ms;
        options.notifTimeout = 300ms;
        EngineConfig config;
        config.agentName = "initiator";
        config.options = std::make_shared<Options>(options);
        config.onPeerChange = [this](const Peer *peer, PeerChange change, const std::string &why) {
            const LockGuard lock(mutex_);
            EXPECT_EQ(peer, peer_.get());
            constexpr const char *kNames[] = {"stalled: ", "resumed: ", "lost: "};
            told_.push_back(kNames[static_cast<int>(change)] + why);
        };
        engine_ = makeLocalEngineFactory()->create(config).value();
        peer_ = engine_->loadPeer("target", std::string_view(target_->card()).substr(8 + 16)).value();
        ASSERT_TRUE(engine_->connect(*peer_).ok());
        process_ = concat("agent 'target' (process ", target_->child().pid(), ")");
    }

    virtual Options
    theirs() const {
        return {};
    }

    std::vector<std::string>
    told() {
        const LockGuard lock(mutex_);
        return told_;
    }

    bool
    tells(std::size_t count) {
        return eventually([&] { return told().size() >= count; });
    }

    std::unique_ptr<TargetProcess> target_; // forked before there are threads
    std::string process_;
    Mutex mutex_;
    std::vector<std::string> told_ NIXL_GUARDED_BY(mutex_);
    std::unique_ptr<Engine> engine_;
    std::shared_ptr<Peer> peer_;
};

using Told = std::vector<std::string>;

TEST_F(PeerChangeTest, TheDeathOfAnIdlePeer) {
    const auto begin = std::chrono::steady_clock::now();
    target_->child().signal(SIGKILL);
    ASSERT_TRUE(tells(1));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 10 * 1s);
    EXPECT_EQ(engine_->connect(*peer_).code(), NIXL_ERR_REMOTE_DISCONNECT);
    peer_.reset();
    EXPECT_EQ(told(), Told{"lost: " + process_ + " is gone: its process has ended"});
}

TEST_F(PeerChangeTest, TheOrderlyEndOfAnIdlePeer) {
    target_->child().line().send("q");
    ASSERT_TRUE(tells(1));
    EXPECT_EQ(told().size(), 1U);
    EXPECT_EQ(told().front().rfind("lost: " + process_, 0), 0U) << told().front();
}

TEST_F(PeerChangeTest, WhatThisSideEndsIsNotTold) {
    peer_.reset();
    target_->child().signal(SIGKILL);
    target_->child().wait();
    engine_.reset();
    EXPECT_EQ(told(), Told{});
}

TEST_F(PeerChangeTest, APeerThatDoesNotReadIsStalledUntilItDoes) {
    // A target that is stopped within the handshake ends it.
    ASSERT_TRUE(engine_->notify(peer_.get(), "x").ok());
    ASSERT_EQ(target_->ask("n 1"), "initiator\n1\nx");
    target_->child().stop();
    const std::string message(1 << 20, 'x');
    Status status;
    for (int i = 0; i < 64 && status.ok(); ++i)
        status = engine_->notify(peer_.get(), message);
    EXPECT_EQ(status.code(), NIXL_ERR_NOT_ALLOWED) << status.message();
    EXPECT_FALSE(engine_->notify(peer_.get(), message).ok());
    EXPECT_EQ(told(), Told{"stalled: " + process_ + " does not read its notifications"});
    target_->child().signal(SIGCONT);
    ASSERT_TRUE(tells(2));
    EXPECT_TRUE(engine_->notify(peer_.get(), "y").ok());
    EXPECT_EQ(told().back().rfind("resumed: " + process_, 0), 0U) << told().back();
    EXPECT_EQ(told().size(), 2U);
}

/// What is promised is three seconds: a ping in the first, no answer in two more.
constexpr std::chrono::seconds kStalledWithin = 10 * 3s;

TEST_F(PeerChangeTest, AnIdlePeerThatIsStoppedIsStalledUntilItGoesOn) {
    target_->child().stop();
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_TRUE(eventually([&] { return !told().empty(); }, kStalledWithin));
    EXPECT_GT(std::chrono::steady_clock::now() - begin, 1s);
    EXPECT_EQ(told(), Told{"stalled: " + process_ + " does not answer: its process may be stopped"});
    EXPECT_TRUE(engine_->notify(peer_.get(), "while it is stopped").ok());
    std::this_thread::sleep_for(2500ms); // told once
    target_->child().signal(SIGCONT);
    ASSERT_TRUE(tells(2));
    EXPECT_EQ(target_->ask("n 1"), "initiator\n19\nwhile it is stopped");
    EXPECT_EQ(told().back(), "resumed: " + process_ + " answers again");
    EXPECT_EQ(told().size(), 2U);
}

TEST_F(PeerChangeTest, APeerThatNeitherReadsNorAnswersIsStalledOnce) {
    target_->child().stop();
    const std::string message(1 << 20, 'x');
    int sent = 0;
    while (engine_->notify(peer_.get(), message).ok())
        ++sent;
    std::this_thread::sleep_for(4s); // and now it does not answer either
    EXPECT_EQ(told().size(), 1U);
    target_->child().signal(SIGCONT);
    ASSERT_TRUE(tells(2));
    target_->ask(concat("n ", sent));
    EXPECT_TRUE(engine_->notify(peer_.get(), "y").ok());
    std::this_thread::sleep_for(100ms);
    ASSERT_EQ(told().size(), 2U);
    EXPECT_EQ(told().back().rfind("resumed: " + process_, 0), 0U) << told().back();
}

TEST_F(PeerChangeTest, APeerThatAnswersIsLeftAlone) {
    std::this_thread::sleep_for(4s);
    EXPECT_EQ(told(), Told{});
}

TEST_F(PeerChangeTest, APeerOfAnOlderReleaseGetsNoHeartbeats) {
    std::string info = target_->card().substr(8 + 16);
    info.replace(info.size() - 4, 4, std::string(4, '\0')); // the revision
    peer_ = engine_->loadPeer("target", info).value();
    ASSERT_TRUE(engine_->notify(peer_.get(), "x").ok());
    EXPECT_EQ(target_->ask("n 1"), "initiator\n1\nx");
    target_->child().stop();
    std::this_thread::sleep_for(4s);
    EXPECT_EQ(told(), Told{});
    target_->child().signal(SIGCONT);
}

class FullPeerTest : public PeerChangeTest {
protected:
    Options
    theirs() const override {
        Options options;
        options.notifQueueBytes = 1; // one message
        return options;
    }
};

TEST_F(FullPeerTest, APeerWhoseProgramTakesNoMessagesIsStalledUntilItDoes) {
    for (int i = 0; i < 2; ++i)
        ASSERT_TRUE(engine_->notify(peer_.get(), "x").ok());
    ASSERT_TRUE(eventually([&] { return !told().empty(); }, kStalledWithin));
    EXPECT_EQ(told(), Told{"stalled: " + process_ + " does not read its notifications"});
    target_->ask("n 2");
    ASSERT_TRUE(tells(2));
    EXPECT_EQ(told().back(), "resumed: " + process_ + " answers again");
}

TEST_F(PeerChangeTest, TheEndOfAnAgentInThisProcess) {
    auto other = std::make_unique<Node>("other");
    peer_ = engine_->loadPeer("other", other->engine().connectionInfo().value()).value();
    ASSERT_TRUE(engine_->connect(*peer_).ok());
    other.reset();
    EXPECT_EQ(told(), Told{"lost: agent 'other' has ended"});
    EXPECT_EQ(engine_->connect(*peer_).code(), NIXL_ERR_REMOTE_DISCONNECT);
}

} // namespace

} // namespace nixl::local
