// Whether a peer that ended a connection is gone.
#include "engines/ucx/connection.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "engines/ucx/library.h"
#include "engines/ucx/settings.h"
#include "support/expect_log.h"
#include "util/options.h"

namespace nixl::ucx {
namespace {

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
