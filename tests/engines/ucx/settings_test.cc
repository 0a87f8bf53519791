#include "engines/ucx/settings.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace nixl::ucx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Surroundings
host() {
    Surroundings out;
    out.devices.interfaces = {"eth0", "lo"};
    out.devices.rdma = {{"mlx5_0", {1, 2}}, {"mlx5_1", {1}}};
    return out;
}

Settings
parsed(const nixl_b_params_t &params, const Surroundings &surroundings = host()) {
    Result<Settings> out = parseSettings(params, surroundings);
    EXPECT_TRUE(out.ok()) << out.status().message();
    return out.ok() ? std::move(out).value() : Settings();
}

/// What a UCX would get for a name; empty if nothing.
std::string
value(const Settings &settings, std::string_view name) {
    for (const Override &change : settings.overrides)
        if (change.name == name)
            return change.value;
    return {};
}

TEST(UcxSettings, Defaults) {
    const Settings settings = parsed({});
    EXPECT_EQ(settings.workers, 1u);
    EXPECT_EQ(settings.threads, 0u);
    EXPECT_EQ(settings.splitBatchSize, 1024u);
    EXPECT_EQ(settings.errorHandling, ErrorHandling::kPeer);
    EXPECT_FALSE(settings.closeForce);
    EXPECT_EQ(value(settings, "RNDV_THRESH"), "inf");
    EXPECT_EQ(value(settings, "MAX_RMA_RAILS"), "2");
    EXPECT_EQ(value(settings, "RC_GDA_NUM_CHANNELS"), "4");
    EXPECT_EQ(value(settings, "TCP_CONN_NB"), "y");
    EXPECT_EQ(value(settings, "KEEPALIVE_INTERVAL"), "1s");
    EXPECT_EQ(value(settings, "NET_DEVICES"), "");
    for (const Override &change : settings.overrides)
        EXPECT_FALSE(change.required) << change.name;
    EXPECT_EQ(settings.transports.text, "all");
}

TEST(UcxSettings, Values) {
    const Settings settings = parsed({{"num_workers", "0x10"},
                                      {"num_threads", "2"},
                                      {"split_batch_size", "64"},
                                      {"ucx_error_handling_mode", "none"},
                                      {"ucx_num_device_channels", "8"},
                                      {"ucx_ep_close_force", "TRUE"},
                                      {"a key of another version", "1"}});
    EXPECT_EQ(settings.workers, 16u);
    EXPECT_EQ(settings.threads, 2u);
    EXPECT_EQ(settings.splitBatchSize, 64u);
    EXPECT_EQ(settings.errorHandling, ErrorHandling::kNone);
    EXPECT_EQ(value(settings, "RC_GDA_NUM_CHANNELS"), "8");
    EXPECT_TRUE(settings.closeForce);
}

TEST(UcxSettings, EveryThreadHasAWorkerAndOneIsLeft) {
    EXPECT_EQ(parsed({{"num_threads", "4"}}).workers, 5u);
    EXPECT_EQ(parsed({{"num_threads", "4"}, {"num_workers", "3"}}).workers, 5u);
    EXPECT_EQ(parsed({{"num_workers", "0"}}).workers, 1u);
}

TEST(UcxSettings, EmptyValuesAreNone) {
    const Settings settings = parsed({{"num_workers", ""},
                                      {"ucx_devices", ""},
                                      {"engine_config", ""},
                                      {"ucx_error_handling_mode", ""},
                                      {"ucx_ep_close_force", ""}});
    EXPECT_EQ(settings.workers, 1u);
    EXPECT_EQ(value(settings, "NET_DEVICES"), "");
}

struct BadValue {
    const char *key;
    const char *value;
    const char *says;
};

class UcxBadValue : public testing::TestWithParam<BadValue> {};

TEST_P(UcxBadValue, IsRefusedByName) {
    const auto &[key, text, says] = GetParam();
    const Result<Settings> settings = parseSettings({{key, text}}, host());
    ASSERT_FALSE(settings.ok());
    EXPECT_EQ(settings.status().code(), NIXL_ERR_INVALID_PARAM);
    EXPECT_THAT(settings.status().message(), HasSubstr(key));
    EXPECT_THAT(settings.status().message(), HasSubstr(text));
    EXPECT_THAT(settings.status().message(), HasSubstr(says));
}

INSTANTIATE_TEST_SUITE_P(
    All, UcxBadValue,
    testing::Values(
        BadValue{"num_workers", "two", "a number from 0 to 1024"}, BadValue{"num_workers", "-1", "a number"},
        BadValue{"num_workers", "1025", "1024"}, BadValue{"num_threads", "99999999999999999999", "1024"},
        BadValue{"split_batch_size", "1k", "a number"}, BadValue{"ucx_num_device_channels", "x", "a number"},
        BadValue{"ucx_error_handling_mode", "peers", "none or peer"},
        BadValue{"ucx_ep_close_force", "maybe", "true or false"},
        BadValue{"engine_config", "TLS", "NAME=VALUE"}, BadValue{"engine_config", "=tcp", "NAME=VALUE"},
        BadValue{"engine_config", "A B=1", "NAME=VALUE"},
        BadValue{"device_list", "eth7", "mlx5_0:1, mlx5_0:2, mlx5_1:1, eth0, lo"},
        BadValue{"ucx_devices", "mlx5_1:2", "does not have"},
        BadValue{"ucx_devices", "mlx5_1:", "does not have"},
        BadValue{"ucx_devices", "eth0:1", "does not have"}));

TEST(UcxSettings, DevicesUnderBothNames) {
    EXPECT_EQ(value(parsed({{"device_list", "mlx5_0"}}), "NET_DEVICES"), "mlx5_0:1");
    EXPECT_EQ(value(parsed({{"ucx_devices", "mlx5_0:2, eth0"}}), "NET_DEVICES"), "mlx5_0:2,eth0");
    EXPECT_EQ(value(parsed({{"ucx_devices", "mlx5_0 mlx5_1,mlx5_0:1"}}), "NET_DEVICES"), "mlx5_0:1,mlx5_1:1");
    EXPECT_EQ(value(parsed({{"ucx_devices", "all"}}), "NET_DEVICES"), "all");
    EXPECT_EQ(value(parsed({{"device_list", "mlx5_0"}, {"ucx_devices", "mlx5_0:1"}}), "NET_DEVICES"),
              "mlx5_0:1");
    const Result<Settings> both = parseSettings({{"device_list", "mlx5_0"}, {"ucx_devices", "eth0"}}, host());
    ASSERT_FALSE(both.ok());
    EXPECT_EQ(both.status().code(), NIXL_ERR_INVALID_PARAM);
    EXPECT_THAT(both.status().message(), HasSubstr("device_list and ucx_devices"));
}

TEST(UcxSettings, EngineConfigHoldsLists) {
    const Settings settings =
        parsed({{"engine_config", "TLS=rc,tcp , self,UCX_TCP_TX_SEG_SIZE=16k,RNDV_THRESH=8k,"}});
    EXPECT_EQ(value(settings, "TLS"), "rc,tcp,self");
    EXPECT_EQ(value(settings, "TCP_TX_SEG_SIZE"), "16k");
    EXPECT_EQ(value(settings, "RNDV_THRESH"), "8k");
    std::size_t thresholds = 0;
    for (const Override &change : settings.overrides) {
        thresholds += change.name == "RNDV_THRESH";
        if (change.name == "RNDV_THRESH" || change.name == "TLS") {
            EXPECT_TRUE(change.required);
            EXPECT_EQ(change.origin, "engine_config");
        }
    }
    EXPECT_EQ(thresholds, 1u);
}

TEST(UcxSettings, EngineConfigWinsOverDevices) {
    const Settings settings = parsed({{"ucx_devices", "mlx5_0"}, {"engine_config", "NET_DEVICES=lo"}});
    EXPECT_EQ(value(settings, "NET_DEVICES"), "lo");
}

TEST(UcxSettings, TheEnvironmentWinsOverDefaultsAndNotOverTheProgram) {
    Surroundings surroundings = host();
    surroundings.environment = {
        {"UCX_RNDV_THRESH", "8k"}, {"UCX_NET_DEVICES", "lo"}, {"UCX_TLS", "tcp"}, {"UCX_TCP_CONN_NB", "n"}};
    Settings settings = parsed({{"ucx_devices", "eth0"}}, surroundings);
    EXPECT_EQ(value(settings, "RNDV_THRESH"), "");
    EXPECT_EQ(value(settings, "TCP_CONN_NB"), "");
    EXPECT_EQ(value(settings, "MAX_RMA_RAILS"), "2");
    EXPECT_EQ(value(settings, "NET_DEVICES"), "eth0");
    EXPECT_EQ(settings.transports.text, "tcp");
    EXPECT_EQ(settings.transports.origin, "UCX_TLS in the environment");
    settings = parsed({{"engine_config", "UCX_TLS=tcp,sm"}}, surroundings);
    EXPECT_EQ(settings.transports.text, "tcp,sm");
    EXPECT_EQ(settings.transports.origin, "TLS in engine_config");
}

TEST(UcxSettings, TheEnvironmentIsReadAtTheCall) {
    ASSERT_EQ(::setenv("UCX_RNDV_THRESH", "4k", 1), 0);
    EXPECT_EQ(currentSurroundings().environment.at("UCX_RNDV_THRESH"), "4k");
    ASSERT_EQ(::unsetenv("UCX_RNDV_THRESH"), 0);
    EXPECT_EQ(currentSurroundings().environment.count("UCX_RNDV_THRESH"), 0u);
}

TEST(UcxDevices, AreReadFromSysfs) {
    const test::TempDir sys;
    for (const char *folder : {"class/net/eth0", "class/net/lo", "class/infiniband/mlx5_0/ports/1",
                               "class/infiniband/mlx5_0/ports/2", "class/infiniband/efa_0/ports/1"})
        std::filesystem::create_directories(sys.file(folder));
    sys.write("class/net/bonding_masters", "");
    const HostDevices found = readHostDevices(sys.path());
    EXPECT_EQ(found.interfaces, (std::set<std::string>{"eth0", "lo"}));
    ASSERT_EQ(found.rdma.size(), 2u);
    EXPECT_EQ(found.rdma.at("mlx5_0"), (std::set<unsigned>{1, 2}));
    const HostDevices none = readHostDevices(sys.file("nothing"));
    EXPECT_TRUE(none.interfaces.empty() && none.rdma.empty());
}

struct LaneCase {
    const char *list;
    bool sameProcess;
    bool hostMemory;
    bool deviceMemory;
};

class UcxHostLanes : public testing::TestWithParam<LaneCase> {};

TEST_P(UcxHostLanes, FollowTheTransports) {
    const LaneCase &expected = GetParam();
    const TransportList list{expected.list, "UCX_TLS in the environment"};
    const auto open = [&](HostLane lane) { return !hostLaneLimit(lane, list).has_value(); };
    EXPECT_EQ(open(HostLane::kSameProcess), expected.sameProcess) << list.text;
    EXPECT_EQ(open(HostLane::kHostMemory), expected.hostMemory) << list.text;
    EXPECT_EQ(open(HostLane::kDeviceMemory), expected.deviceMemory) << list.text;
}

INSTANTIATE_TEST_SUITE_P(
    All, UcxHostLanes,
    testing::Values(LaneCase{"all", true, true, true}, LaneCase{"tcp", false, false, false},
                    LaneCase{"tcp,self", true, false, false}, LaneCase{"tcp,sm", true, true, false},
                    LaneCase{"rc,shm,cuda", true, true, true}, LaneCase{"tcp, mm", true, true, false},
                    LaneCase{"tcp,posix", true, true, false}, LaneCase{"sysv", true, true, false},
                    LaneCase{"xpmem", true, true, false}, LaneCase{"cma,tcp", true, true, false},
                    LaneCase{"knem", true, true, false}, LaneCase{"tcp,cuda_copy", false, false, false},
                    LaneCase{"tcp,cuda_ipc", false, false, true}, LaneCase{"\\posix", true, true, false},
                    LaneCase{"\\sm", false, false, false}, LaneCase{"cuda*", false, false, true},
                    LaneCase{"^sm", true, false, true}, LaneCase{"^shm,self", false, false, true},
                    LaneCase{"^posix", true, true, true}, LaneCase{"^mm", true, true, true},
                    LaneCase{"^mm,cma", true, false, true},
                    LaneCase{"^posix,sysv,cma,self", false, false, true},
                    LaneCase{"^cuda", true, true, false}, LaneCase{"^\\cuda_ipc", true, true, false},
                    LaneCase{"^tcp", true, true, true}, LaneCase{"", false, false, false}));

TEST(UcxHostLanes, TheReasonNamesWhoSaidIt) {
    const std::optional<std::string> why =
        hostLaneLimit(HostLane::kHostMemory, {"tcp,self", "UCX_TLS in the environment"});
    ASSERT_TRUE(why.has_value());
    EXPECT_EQ(*why, "UCX_TLS in the environment is 'tcp,self', which leaves no shared memory");
}

} // namespace
} // namespace nixl::ucx
