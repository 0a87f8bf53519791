// A channel whose other end the test speaks for.
#pragma once

#include "local_fixture.h"

#include <array>

#include "engines/local/host_process.h"
#include "engines/local/peer_channel.h"
#include "util/event_loop.h"
#include "util/mutex.h"
#include "util/socket.h"

namespace nixl::local {

class ChannelFixture : public ::testing::Test {
protected:
    void
    SetUp() override {
        process_ = HostProcess::get().value();
        int ends[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        far_ = ScopedFd(ends[0]);
        auto credentials = peerCredentials(ends[1]).value();
        auto table = PeerTable::map(table_.fd()).value();
        auto life = LifeView::map(process_->life().fd()).value();
        PeerChannel::Hooks hooks;
        hooks.undelivered = [this](std::string message, const std::string &why) {
            const LockGuard lock(mutex_);
            undelivered_.push_back(message + " - " + why);
        };
        channel_ =
            PeerChannel::create(process_->loop(), process_->heartbeat(),
                                Acquaintance{ScopedFd(ends[1]), getpid(), std::move(credentials.pidfd),
                                             std::move(table), std::move(life), SharedMarks::create().value(),
                                             std::make_unique<Challenge>(), kRevision, slot_},
                                "lender", std::move(hooks))
                .value();
    }

    void
    TearDown() override {
        if (channel_)
            channel_->close(0ms);
        channel_.reset();
        process_.reset();
    }

    void
    say(std::string_view bytes, const std::vector<int> &fds = {}) {
        EXPECT_EQ(sendSome(far_.get(), std::array{bytes}, fds).bytes, bytes.size());
    }

    std::vector<std::string>
    undelivered() {
        const LockGuard lock(mutex_);
        return undelivered_;
    }

    std::shared_ptr<HostProcess> process_;
    RegionTable table_ = RegionTable::create().value();
    const std::uint32_t slot_ = *table_.addConnection();
    ScopedFd far_;
    Mutex mutex_;
    std::vector<std::string> undelivered_ NIXL_GUARDED_BY(mutex_);
    std::shared_ptr<PeerChannel> channel_;
};

} // namespace nixl::local
