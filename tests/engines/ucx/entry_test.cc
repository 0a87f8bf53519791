// What the factory answers where there is no UCX.
#include "engines/ucx/entry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "util/options.h"

namespace nixl {
namespace {

class UcxEntry : public testing::Test {
protected:
    /// A configuration under which no UCX is found, unless the process has one already.
    static EngineConfig
    without(const nixl_b_params_t &params) {
        Options options;
        options.ucxDir = "/nonexistent";
        EngineConfig config;
        config.agentName = "a";
        config.params = params;
        config.options = std::make_shared<const Options>(options);
        return config;
    }

    const std::shared_ptr<EngineFactory> factory_ = makeUcxEngineFactory();
};

TEST_F(UcxEntry, AMistakeInTheParametersIsOneWithoutUcxToo) {
    const Status status = factory_->create(without({{"num_workers", "many"}})).status();
    EXPECT_EQ(status.code(), NIXL_ERR_INVALID_PARAM) << status.message();
    EXPECT_THAT(status.message(), testing::HasSubstr("num_workers is 'many'"));
}

TEST_F(UcxEntry, WhatTheProgramRulesOutIsKnownWithoutUcx) {
    const EngineConfig tcp = without({{"engine_config", "TLS=tcp"}});
    const auto limit = factory_->hostLaneLimit(HostLane::kHostMemory, tcp);
    ASSERT_TRUE(limit.has_value());
    EXPECT_THAT(*limit, testing::AllOf(testing::HasSubstr("engine_config"), testing::HasSubstr("'tcp'")));
    EXPECT_TRUE(factory_->hostLaneLimit(HostLane::kSameProcess, tcp).has_value());
    const EngineConfig shared = without({{"engine_config", "TLS=tcp,sm"}});
    EXPECT_FALSE(factory_->hostLaneLimit(HostLane::kHostMemory, shared).has_value());
    const EngineConfig wrong = without({{"engine_config", "TLS=tcp"}, {"num_workers", "many"}});
    EXPECT_FALSE(factory_->hostLaneLimit(HostLane::kHostMemory, wrong).has_value()) << "create() reports it";
}

} // namespace
} // namespace nixl
