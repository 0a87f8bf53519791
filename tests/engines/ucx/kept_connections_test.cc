#include "engines/ucx/kept_connections.h"

#include <gtest/gtest.h>

#include "engines/ucx/library.h"
#include "engines/ucx/settings.h"
#include "support/expect_log.h"
#include "util/options.h"

namespace nixl::ucx {
namespace {

class KeptConnectionsTest : public ::testing::Test {
protected:
    KeptConnectionsTest()
        : settings_(
              parseSettings({{"engine_config", "TLS=tcp,NET_DEVICES=lo"}, {"num_workers", "2"}}).value()),
          context_(Context::create(Library::get(Options()).value(), settings_).value()) {
        for (unsigned i = 0; i < 2; ++i)
            workers_.push_back(ProgressWorker::create(*context_, i).value());
    }

    ~KeptConnectionsTest() override {
        kept_.close(true);
        drive();
        EXPECT_EQ(workers_[0]->operations() + workers_[1]->operations(), 0U);
    }

    /// An open one of worker 0 to worker 1.
    std::shared_ptr<Connection>
    connection(const std::string &peer) {
        auto made = std::make_shared<Connection>(*workers_[0], peer, workers_[1]->address().value(), true);
        EXPECT_TRUE(workers_[0]->locked([&] { return made->open().ok(); }));
        return made;
    }

    /// As the error handler would.
    void
    breakOff(Connection &connection) {
        workers_[0]->locked([&] {
            return connection.report(connection.open().value(), UCS_ERR_CONNECTION_RESET, false).ok();
        });
    }

    void
    drive() {
        for (int i = 0; i < 10000; ++i) {
            workers_[0]->progress();
            workers_[1]->progress();
        }
    }

    std::shared_ptr<Connection>
    take(unsigned worker, const std::string &peer) {
        return kept_.take(*workers_[worker], peer, workers_[1]->address().value());
    }

    test::ExpectLog log_;
    const Settings settings_;
    std::unique_ptr<Context> context_;
    std::vector<std::unique_ptr<ProgressWorker>> workers_;
    KeptConnections kept_;
};

TEST_F(KeptConnectionsTest, WhoComesBackGetsTheSameOne) {
    const auto first = connection("first");
    kept_.keep(first);
    kept_.keep(connection("second"));
    EXPECT_EQ(take(0, "third"), nullptr);
    EXPECT_EQ(take(1, "first"), nullptr) << "of another worker";
    EXPECT_EQ(kept_.take(*workers_[0], "first", "another address"), nullptr);
    EXPECT_EQ(take(0, "first"), first);
    EXPECT_EQ(take(0, "first"), nullptr) << "it is not kept any more";
    EXPECT_EQ(kept_.size(), 1U);
    kept_.keep(first);
    EXPECT_EQ(kept_.size(), 2U);
}

TEST_F(KeptConnectionsTest, BrokenOnesAreNeitherKeptNorTaken) {
    const auto broken = connection("first");
    kept_.keep(broken);
    breakOff(*broken);
    EXPECT_EQ(take(0, "first"), nullptr);
    kept_.keep(connection("second"));
    EXPECT_EQ(kept_.size(), 1U) << "the broken one went";
    EXPECT_EQ(broken.use_count(), 1);
    kept_.keep(broken);
    kept_.keep(std::make_shared<Connection>(*workers_[0], "third", workers_[1]->address().value(), true));
    EXPECT_EQ(kept_.size(), 1U) << "broken, and never opened";
}

} // namespace
} // namespace nixl::ucx
