// Whether a peer that ended a connection is gone.
#include "engines/ucx/connection.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <random>
#include <thread>

#include "engines/ucx/address_check.h"
#include "engines/ucx/library.h"
#include "engines/ucx/link_message.h"
#include "engines/ucx/settings.h"
#include "support/expect_log.h"
#include "util/options.h"
#include "util/scoped_fd.h"

namespace nixl::ucx {
namespace {

/// Memory that was freed holds nothing that is right by chance.
struct FreedIsOverwritten {
    FreedIsOverwritten() {
        ::mallopt(M_PERTURB, 0xa5);
    }

    ~FreedIsOverwritten() {
        ::mallopt(M_PERTURB, 0);
    }
};

class ConnectionTest : public ::testing::Test {
protected:
    ConnectionTest()
        : settings_(parseSettings({{"engine_config", "TLS=tcp,NET_DEVICES=lo"}}).value()),
          near_(makeContext()), far_(makeContext()) {
        here_ = ProgressWorker::create(*near_, 0).value();
        there_ = ProgressWorker::create(*far_, 0).value();
        out_ = std::make_shared<Connection>(*here_, "far", there_->address().value(), true);
        back_ = std::make_shared<Connection>(*there_, "near", here_->address().value(), true);
        here_->locked([&] { out_->tellLost([this](const Status &why) { lost_.push_back(why.message()); }); });
        greet(*out_);
        greet(*back_);
    }

    ~ConnectionTest() override {
        here_->with([&] {
            out_->tellLost(nullptr);
            out_->close(true);
        });
        if (there_)
            there_->with([&] { back_->close(true); });
        drive([&] { return here_->operations() == 0 && (!there_ || there_->operations() == 0); });
        back_.reset();
        out_.reset();
    }

    std::unique_ptr<Context>
    makeContext() {
        return Context::create(Library::get(Options()).value(), settings_).value();
    }

    /// Until the condition holds, and a while longer.
    template<typename Condition>
    bool
    drive(Condition condition, int more = 1000) {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (more > 0 && std::chrono::steady_clock::now() < limit) {
            here_->progress();
            if (there_)
                there_->progress();
            if (condition())
                --more;
            else
                std::this_thread::sleep_for(std::chrono::microseconds(10));
        }
        return more == 0;
    }

    void
    greet(Connection &connection) {
        bool answered = false;
        connection.greet([&](const Status &status) {
            EXPECT_TRUE(status.ok()) << status.message();
            answered = true;
        });
        EXPECT_TRUE(drive([&] { return answered; }, 1));
    }

    bool
    broke(std::uint64_t opening) {
        return here_->locked([&] { return !out_->stands(opening); });
    }

    test::ExpectLog log_;
    const Settings settings_;
    std::unique_ptr<Context> near_, far_;
    std::unique_ptr<ProgressWorker> here_, there_;
    std::shared_ptr<Connection> out_, back_;
    std::vector<std::string> lost_;
};

TEST_F(ConnectionTest, APeerThatEndsItByForceIsNotLost) {
    there_->with([&] { back_->cutOff(back_->open().value()); });
    EXPECT_TRUE(drive([&] { return there_->operations() == 0; }, 5000));
    EXPECT_TRUE(lost_.empty()) << lost_.front();
    greet(*out_);
}

TEST_F(ConnectionTest, APeerThatIsReachedAnewIsNotLost) {
    const std::uint64_t opening = here_->locked([&] { return out_->open().value(); });
    // As the error handler would.
    here_->with([&] { EXPECT_FALSE(out_->report(opening, UCS_ERR_CONNECTION_RESET, false).ok()); });
    ASSERT_TRUE(drive([&] { return here_->operations() == 0; }));
    EXPECT_TRUE(broke(opening));
    EXPECT_TRUE(here_->locked([&] { return out_->stands(); })) << "it is connected with again";
    EXPECT_TRUE(lost_.empty()) << lost_.front();
}

TEST_F(ConnectionTest, WhatThisSideEndsIsNoLoss) {
    here_->with([&] { out_->cutOff(out_->open().value()); });
    ASSERT_TRUE(drive([&] { return here_->operations() == 0; }));
    greet(*out_);
    here_->with([&] { out_->close(true); });
    ASSERT_TRUE(drive([&] { return here_->operations() == 0; }));
    EXPECT_TRUE(lost_.empty()) << lost_.front();
}

// UCX 1.22 ends the process, within some tens of rounds, if it is not kept from it (event_order.h).
TEST_F(ConnectionTest, BothSidesCloseAtAnyTimeAndHaveMoreToSend) {
    const auto discard = [](void *, const void *, std::size_t, void *, std::size_t,
                            const ucp_am_recv_param_t *) { return UCS_OK; };
    ASSERT_TRUE(here_->receive(kPing, discard, nullptr).ok());
    ASSERT_TRUE(there_->receive(kPing, discard, nullptr).ok());
    const FreedIsOverwritten overwritten;
    const std::string bytes(60 << 10, 'x');
    std::mt19937 random(1);
    const auto dice = [&random](unsigned sides) { return random() % sides; };
    const auto fill = [&](ProgressWorker &worker, const Connection &connection, unsigned count) {
        worker.locked([&] {
            for (unsigned i = 0; i < count && connection.stands(); ++i) {
                ucp_request_param_t param{};
                param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
                param.flags = UCP_AM_SEND_FLAG_EAGER;
                void *request =
                    worker.api().am_send_nbx(connection.endpoint(), kPing, nullptr, 0, bytes.data(),
                                             dice(2) == 0 ? bytes.size() : 100, &param);
                if (UCS_PTR_IS_PTR(request))
                    worker.api().request_free(request);
            }
        });
    };
    // Rarely, UCX makes no connection after that; another one would be tried (liveness.h).
    int answers = 0, silences = 0;
    const auto greetBriefly = [&](Connection &connection) {
        const auto answered = std::make_shared<bool>(false);
        connection.greet([answered](const Status &) { *answered = true; });
        const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
        while (!*answered && std::chrono::steady_clock::now() < limit) {
            here_->progress();
            there_->progress();
        }
        ++(*answered ? answers : silences);
    };
    const auto close = [](ProgressWorker &worker, Connection &connection) {
        worker.locked([&] { connection.close(true); });
    };
    for (int round = 0; round < 1000; ++round) {
        greetBriefly(*out_);
        if (dice(4) != 0)
            greetBriefly(*back_);
        fill(*here_, *out_, dice(3) != 0 ? dice(300) : dice(10));
        if (dice(3) == 0)
            fill(*there_, *back_, dice(2) != 0 ? dice(300) : dice(10));
        for (int step = 0; step < 12; ++step) {
            const unsigned what = dice(8);
            if (what == 0)
                close(*here_, *out_);
            else if (what == 1)
                close(*there_, *back_);
            else if (what == 2)
                fill(*here_, *out_, dice(5));
            else if (what < 5)
                here_->progress();
            else
                for (unsigned i = what == 5 ? 1 : dice(300); i > 0; --i)
                    there_->progress();
        }
        close(*here_, *out_);
        close(*there_, *back_);
        ASSERT_TRUE(drive([&] { return here_->operations() == 0 && there_->operations() == 0; }, 20))
            << round;
    }
    EXPECT_GT(answers, silences);
}

/// Takes a few connections and resets each after so many turns of a loop, as a system does whose process
/// ends.
class Resetting {
public:
    explicit Resetting(int connections, int turns)
        : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in in{};
        in.sin_family = AF_INET;
        in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof in;
        EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr *>(&in), length), 0);
        EXPECT_EQ(::listen(socket_.get(), 16), 0);
        EXPECT_EQ(::getsockname(socket_.get(), reinterpret_cast<sockaddr *>(&in), &length), 0);
        port_.assign(reinterpret_cast<const char *>(&in.sin_port), sizeof in.sin_port);
        thread_ = std::thread([this, connections, turns] {
            for (int i = 0; i < connections; ++i) {
                const ScopedFd one(::accept(socket_.get(), nullptr, nullptr));
                for (int turn = 0; turn < turns; ++turn)
                    asm volatile("");
                const linger reset{1, 0};
                (void)::setsockopt(one.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
            }
            ::shutdown(socket_.get(), SHUT_RDWR);
        });
    }

    ~Resetting() {
        ::shutdown(socket_.get(), SHUT_RDWR); // ends accept()
        thread_.join();
    }

    /// As in an address of UCX.
    const std::string &
    port() const {
        return port_;
    }

private:
    ScopedFd socket_;
    std::string port_;
    std::thread thread_;
};

// UCX 1.22 ends the process, within some hundred rounds, if it waits for connections (settings.cc).
TEST_F(ConnectionTest, APeerThatEndsAsItIsConnectedWith) {
    const std::string address = there_->address().value();
    const auto interfaces = tcpInterfaces(address);
    ASSERT_EQ(interfaces.size(), 1U);
    const auto at = static_cast<std::size_t>(interfaces.front().interface.data() - address.data());
    const FreedIsOverwritten overwritten;
    std::mt19937 random(1);
    const std::string bytes(60 << 10, 'x');
    for (int round = 0; round < 1500; ++round) {
        const Resetting peer(1 + static_cast<int>(random() % 3), static_cast<int>(random() % 5000));
        std::string other = address;
        other.replace(at, peer.port().size(), peer.port());
        auto connection = std::make_shared<Connection>(*here_, "ending", other, true);
        here_->with([&] { (void)connection->open(); });
        for (int i = 0; i < 200; ++i) {
            here_->locked([&] {
                ucp_request_param_t param{};
                param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
                param.flags = UCP_AM_SEND_FLAG_EAGER;
                void *request =
                    connection->stands()
                        ? here_->api().am_send_nbx(connection->endpoint(), kPing, nullptr, 0, bytes.data(),
                                                   i % 2 == 0 ? 8 : bytes.size(), &param)
                        : nullptr;
                if (UCS_PTR_IS_PTR(request))
                    here_->api().request_free(request);
            });
            here_->progress();
        }
        here_->with([&] { connection->giveUp(Status(NIXL_ERR_CANCELED, "the round is over")); });
    }
    greet(*out_);
}

TEST_F(ConnectionTest, AnIdlePeerThatIsGoneIsLostOnce) {
    back_.reset();
    there_.reset();
    EXPECT_TRUE(drive([&] { return !lost_.empty(); }));
    ASSERT_EQ(lost_.size(), 1U);
    EXPECT_NE(lost_.front().find("'far'"), std::string::npos) << lost_.front();
}

TEST_F(ConnectionTest, NobodyAsksForAPeerThatWasGivenUp) {
    here_->locked([&] { out_->tellLost(nullptr); });
    const std::uint64_t opening = here_->locked([&] { return out_->open().value(); });
    back_.reset();
    there_.reset();
    EXPECT_TRUE(drive([&] { return broke(opening); }));
    EXPECT_FALSE(here_->locked([&] { return out_->stands(); }));
    EXPECT_TRUE(lost_.empty());
}

} // namespace
} // namespace nixl::ucx
