// A million requests by a process that may have 1,024 descriptors: what it holds stays as it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "nixl.h"
#include "nixl_ext.h"

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRequests = 20000; // they keep freed memory, and find leaks by themselves
constexpr bool kCountsMemory = false;
#else
constexpr int kRequests = 1000000;
constexpr bool kCountsMemory = true;
#endif

/// What a process holds.
struct Held {
    std::size_t descriptors = 0;
    std::size_t threads = 0;
    std::size_t residentBytes = 0;

    static Held
    now() {
        const auto entries = [](const char *folder) {
            return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
        };
        Held held{entries("/proc/self/fd"), entries("/proc/self/task"), 0};
        std::ifstream statm("/proc/self/statm");
        std::size_t total = 0;
        statm >> total >> held.residentBytes;
        held.residentBytes *= static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        return held;
    }
};

class ManyRequests : public ::testing::Test {
protected:
    ManyRequests() {
        getrlimit(RLIMIT_NOFILE, &before_);
        const rlimit few{std::min<rlim_t>(1024, before_.rlim_max), before_.rlim_max};
        setrlimit(RLIMIT_NOFILE, &few);
        for (nixlAgent *agent : {&near_, &far_}) {
            nixlBackendH *backend = nullptr;
            EXPECT_EQ(agent->createBackend("LOCAL", {}, backend), NIXL_SUCCESS) << nixl_last_error();
            nixl_reg_dlist_t regions(DRAM_SEG);
            std::vector<char> &memory = agent == &near_ ? source_ : sink_;
            regions.addDesc(
                nixlBlobDesc(reinterpret_cast<std::uintptr_t>(memory.data()), memory.size(), 0, ""));
            EXPECT_EQ(agent->registerMem(regions), NIXL_SUCCESS) << nixl_last_error();
        }
        nixl_blob_t metadata;
        std::string name;
        EXPECT_EQ(far_.getLocalMD(metadata), NIXL_SUCCESS);
        EXPECT_EQ(near_.loadRemoteMD(metadata, name), NIXL_SUCCESS) << nixl_last_error();
    }

    ~ManyRequests() override {
        setrlimit(RLIMIT_NOFILE, &before_);
    }

    static nixl_xfer_dlist_t
    block(const std::vector<char> &memory) {
        nixl_xfer_dlist_t list(DRAM_SEG);
        list.addDesc(nixlBasicDesc(reinterpret_cast<std::uintptr_t>(memory.data()), memory.size(), 0));
        return list;
    }

    /// Makes, posts and releases a request. One in a hundred brings a message, one in a hundred is left to be
    /// released while it may run.
    bool
    one(int number) {
        nixlXferReqH *request = nullptr;
        nixl_opt_args_t options;
        if (number % 100 == 0)
            options.notif = "message";
        if (near_.createXferReq(NIXL_WRITE, nearList_, farList_, "far", request, &options) != NIXL_SUCCESS)
            return false;
        nixl_status_t status = near_.postXferReq(request);
        while (status == NIXL_IN_PROG && number % 100 != 1)
            status = near_.getXferStatus(request);
        if (status < 0)
            return false;
        while (near_.releaseXferReq(request) == NIXL_ERR_REPOST_ACTIVE) {
        }
        nixl_notifs_t messages;
        return number % 1000 != 0 || far_.getNotifs(messages) == NIXL_SUCCESS;
    }

    void
    many(int count) {
        for (int i = 0; i < count; ++i)
            ASSERT_TRUE(one(i)) << "request " << i << ": " << nixl_last_error();
    }

private:
    rlimit before_{};
    std::vector<char> source_ = std::vector<char>(4096, 'x'), sink_ = std::vector<char>(4096);
    nixlAgent near_{"near", nixlAgentConfig()}, far_{"far", nixlAgentConfig()};
    const nixl_xfer_dlist_t nearList_ = block(source_), farList_ = block(sink_);
};

TEST_F(ManyRequests, LeaveNothingBehind) {
    many(kRequests / 20);
    const Held before = Held::now();
    many(kRequests);
    const Held after = Held::now();
    EXPECT_EQ(after.descriptors, before.descriptors);
    EXPECT_EQ(after.threads, before.threads);
    if (kCountsMemory) {
        EXPECT_LE(after.residentBytes, before.residentBytes + (std::size_t{2} << 20));
    }
}

} // namespace
