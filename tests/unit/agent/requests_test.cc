// Preparing lists and making requests.
#include "unit/agent/agent_fixture.h"

#include <climits>

namespace nixl {
namespace {

using ::testing::HasSubstr;

class Requests : public AgentTest {
protected:
    void
    SetUp() override {
        makeAgents();
        connect();
    }

    nixlDlistH *
    localList(const std::vector<std::pair<std::size_t, std::size_t>> &pieces) {
        nixlDlistH *list = nullptr;
        EXPECT_OK(a->prepXferDlist(blocks(memoryA, pieces), list));
        return list;
    }

    nixlDlistH *
    remoteList(const std::vector<std::pair<std::size_t, std::size_t>> &pieces) {
        nixlDlistH *list = nullptr;
        EXPECT_OK(a->prepXferDlist("b", blocks(memoryB, pieces), list));
        return list;
    }

    nixlPathExplanation
    explain(const nixlXferReqH *request) {
        nixlPathExplanation explanation;
        EXPECT_OK(nixlExplain(*a, request, explanation));
        return explanation;
    }

    nixl_status_t
    strided(std::uintptr_t offset, std::size_t len, std::size_t stride, std::size_t count,
            nixlDlistH **out = nullptr) {
        nixl_stride_dlist_t list(DRAM_SEG);
        list.addDesc(nixlStrideDesc(address(memoryA, offset), len, 0, stride, count));
        nixlDlistH *handle = nullptr;
        const nixl_status_t status = a->prepXferDlist(list, handle);
        if (status == NIXL_SUCCESS && !out) {
            EXPECT_OK(a->releasedDlistH(handle));
        }
        if (out)
            *out = handle;
        return status;
    }
};

TEST_F(Requests, PreparingNamesTheBlockThatLiesNowhere) {
    nixlDlistH *list = reinterpret_cast<nixlDlistH *>(0x10);
    EXPECT_STATUS(a->prepXferDlist("nobody", blocks(memoryB, {{0, 1}}), list), NIXL_ERR_NOT_FOUND);
    EXPECT_EQ(list, reinterpret_cast<nixlDlistH *>(0x10)) << "untouched";
    EXPECT_STATUS(a->prepXferDlist("b", blocks(memoryB, {{0, 1}, {4000, 97}}), list), NIXL_ERR_NOT_FOUND);
    EXPECT_EQ(list, nullptr);
    EXPECT_THAT(nixl_last_error(), HasSubstr("block 1"));
    EXPECT_STATUS(a->prepXferDlist(blocks(memoryA, {}), list), NIXL_ERR_NOT_FOUND) << "empty";
    EXPECT_STATUS(a->prepXferDlist(blocks(memoryA, {{0, 8}, {8, 0}}), list), NIXL_ERR_NOT_FOUND)
        << "length zero";
    EXPECT_THAT(nixl_last_error(), HasSubstr("length is zero"));
    EXPECT_STATUS(a->prepXferDlist(nixl_xfer_dlist_t(VRAM_SEG, 1), list), NIXL_ERR_NOT_FOUND)
        << "other memory";
    nixl_xfer_dlist_t wrapping(DRAM_SEG);
    wrapping.addDesc(nixlBasicDesc(address(memoryA), ~std::size_t{0}, 0));
    EXPECT_STATUS(a->prepXferDlist(wrapping, list), NIXL_ERR_NOT_FOUND);
}

TEST_F(Requests, StridedRows) {
    EXPECT_OK(strided(0, 64, 128, 32));
    EXPECT_OK(strided(0, 64, 1u << 30, 1)) << "one piece with a huge stride";
    EXPECT_STATUS(strided(0, 64, 128, 33), NIXL_ERR_NOT_FOUND) << "beyond the region";
    EXPECT_THAT(nixl_last_error(), HasSubstr("piece 32"));
    EXPECT_STATUS(strided(0, 64, 128, 0), NIXL_ERR_NOT_FOUND);
    EXPECT_STATUS(strided(0, 0, 128, 3), NIXL_ERR_NOT_FOUND);
    EXPECT_STATUS(strided(0, 64, 63, 3), NIXL_ERR_NOT_FOUND);
    EXPECT_STATUS(strided(0, 64, 0, 1), NIXL_ERR_NOT_FOUND);
    EXPECT_STATUS(strided(256, 64, ~std::size_t{0} - 63, 3), NIXL_ERR_NOT_FOUND) << "a stride of -64";
    EXPECT_STATUS(strided(0, 64, std::size_t{1} << 63, 3), NIXL_ERR_NOT_FOUND);
    EXPECT_STATUS(strided(0, 64, 128, ~std::size_t{0}), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(nixl_last_error(), HasSubstr("row 0"));
}

TEST_F(Requests, StridedRowsCountAcrossRows) {
    nixl_stride_dlist_t rows(DRAM_SEG);
    rows.addDesc(nixlStrideDesc(address(memoryA, 0), 8, 0, 16, 3));
    rows.addDesc(nixlStrideDesc(address(memoryA, 1000), 8, 0, 100, 2));
    nixlDlistH *local = nullptr, *remote = remoteList({{0, 8}, {8, 8}});
    ASSERT_OK(a->prepXferDlist(rows, local));
    nixlXferReqH *request = nullptr;
    ASSERT_OK(a->makeXferReq(NIXL_WRITE, local, {4, 2}, remote, {0, 1}, request));
    ASSERT_OK(a->postXferReq(request));
    EXPECT_EQ(memoryB.substr(0, 16), memoryA.substr(1100, 8) + memoryA.substr(32, 8));
    EXPECT_STATUS(a->makeXferReq(NIXL_WRITE, local, {5, 2}, remote, {0, 1}, request), NIXL_ERR_INVALID_PARAM);
    for (nixlDlistH *list : {local, remote})
        EXPECT_OK(a->releasedDlistH(list));
}

TEST_F(Requests, MakingChecksHandlesSidesIndicesAndLengths) {
    nixlDlistH *local = localList({{0, 8}, {8, 8}, {16, 4}}), *remote = remoteList({{0, 8}, {8, 8}});
    nixlXferReqH *request = reinterpret_cast<nixlXferReqH *>(0x10);
    const auto make = [&](nixlDlistH *l, std::vector<int> li, nixlDlistH *r, std::vector<int> ri) {
        request = reinterpret_cast<nixlXferReqH *>(0x10);
        const nixl_status_t status = a->makeXferReq(NIXL_READ, l, li, r, ri, request);
        EXPECT_EQ(request, nullptr);
        return status;
    };
    EXPECT_STATUS(make(nullptr, {0}, remote, {0}), NIXL_ERR_INVALID_PARAM);
    EXPECT_STATUS(make(local, {0}, nullptr, {0}), NIXL_ERR_INVALID_PARAM);
    EXPECT_STATUS(make(remote, {0}, remote, {0}), NIXL_ERR_INVALID_PARAM);
    EXPECT_STATUS(make(local, {0}, local, {0}), NIXL_ERR_INVALID_PARAM);
    EXPECT_STATUS(make(local, {}, remote, {}), NIXL_ERR_INVALID_PARAM);
    EXPECT_STATUS(make(local, {0, 1}, remote, {0}), NIXL_ERR_INVALID_PARAM);
    for (const int bad : {-1, 3, INT_MAX, INT_MIN}) {
        EXPECT_STATUS(make(local, {0, bad}, remote, {0, 1}), NIXL_ERR_INVALID_PARAM);
        EXPECT_THAT(nixl_last_error(), HasSubstr("local index " + std::to_string(bad) + " at position 1"));
    }
    EXPECT_STATUS(make(local, {0}, remote, {2}), NIXL_ERR_INVALID_PARAM);
    EXPECT_THAT(nixl_last_error(), HasSubstr("remote index 2"));
    EXPECT_STATUS(make(local, {0, 2}, remote, {0, 1}), NIXL_ERR_INVALID_PARAM);
    EXPECT_THAT(nixl_last_error(), HasSubstr("position 1"));
    // A handle that was released, of another agent, or that never was.
    nixlDlistH *released = localList({{0, 8}});
    EXPECT_OK(a->releasedDlistH(released));
    EXPECT_STATUS(make(released, {0}, remote, {0}), NIXL_ERR_INVALID_PARAM);
    EXPECT_STATUS(make(reinterpret_cast<nixlDlistH *>(0x7f0000001234), {0}, remote, {0}),
                  NIXL_ERR_INVALID_PARAM);
    EXPECT_STATUS(a->releasedDlistH(released), NIXL_ERR_INVALID_PARAM);
    EXPECT_STATUS(b->releasedDlistH(local), NIXL_ERR_INVALID_PARAM);
    EXPECT_OK(a->releasedDlistH(local));
    EXPECT_OK(a->releasedDlistH(remote));
}

TEST_F(Requests, CreatingChecksInTheSameOrderAsNixl) {
    nixlXferReqH *request = nullptr;
    const auto create = [&](const nixl_xfer_dlist_t &l, const nixl_xfer_dlist_t &r, const std::string &who) {
        return a->createXferReq(NIXL_WRITE, l, r, who, request);
    };
    EXPECT_STATUS(create(blocks(memoryA, {{0, 8}}), blocks(memoryB, {{0, 8}, {8, 8}}), "nobody"),
                  NIXL_ERR_INVALID_PARAM);
    EXPECT_STATUS(create(blocks(memoryA, {{0, 8}}), blocks(memoryB, {{0, 9}}), "nobody"),
                  NIXL_ERR_INVALID_PARAM);
    EXPECT_STATUS(create(blocks(memoryA, {{0, 8}}), blocks(memoryB, {{0, 8}}), "nobody"), NIXL_ERR_NOT_FOUND);
    EXPECT_STATUS(create(blocks(memoryA, {}), blocks(memoryB, {}), "b"), NIXL_ERR_NOT_FOUND);
    EXPECT_STATUS(create(blocks(memoryA, {{4090, 8}}), blocks(memoryB, {{0, 8}}), "b"), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(nixl_last_error(), HasSubstr("local side"));
    EXPECT_STATUS(create(blocks(memoryA, {{0, 8}}), blocks(memoryB, {{4090, 8}}), "b"), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(nixl_last_error(), HasSubstr("remote side"));
    EXPECT_EQ(request, nullptr);
}

TEST_F(Requests, NeighboursAreMergedOnlyWhereBothSidesContinue) {
    // blocks 0,1,2 continue on both sides; 3 continues locally only; 4 on neither.
    const auto left = blocks(memoryA, {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {100, 8}});
    const auto right = blocks(memoryB, {{50, 8}, {58, 8}, {66, 8}, {200, 8}, {300, 8}});
    nixlXferReqH *request = nullptr;
    ASSERT_OK(a->createXferReq(NIXL_WRITE, left, right, "b", request));
    EXPECT_EQ(explain(request).blocks, 3u);
    EXPECT_EQ(explain(request).bytes, 40u);
    ASSERT_OK(a->postXferReq(request));
    EXPECT_EQ(memoryB.substr(50, 24), memoryA.substr(0, 24));
    EXPECT_EQ(memoryB.substr(200, 8), memoryA.substr(24, 8));
    EXPECT_EQ(memoryB.substr(300, 8), memoryA.substr(100, 8));
    nixl_opt_args_t args;
    args.skipDescMerge = true;
    ASSERT_OK(a->createXferReq(NIXL_WRITE, left, right, "b", request, &args));
    EXPECT_EQ(explain(request).blocks, 5u);

    nixlDlistH *local = nullptr, *remote = nullptr;
    ASSERT_OK(a->prepXferDlist(left, local));
    ASSERT_OK(a->prepXferDlist("b", right, remote));
    ASSERT_OK(a->makeXferReq(NIXL_READ, local, {0, 1, 2, 3, 4}, remote, {0, 1, 2, 3, 4}, request));
    EXPECT_EQ(explain(request).blocks, 3u);
    ASSERT_OK(a->makeXferReq(NIXL_READ, local, {2, 1, 0}, remote, {2, 1, 0}, request));
    EXPECT_EQ(explain(request).blocks, 3u) << "descending order does not continue";
    ASSERT_OK(a->makeXferReq(NIXL_READ, local, {0, 1}, remote, {0, 1}, request, &args));
    EXPECT_EQ(explain(request).blocks, 2u);
}

TEST_F(Requests, BlocksOfTwoRegionsAreNotMerged) {
    std::string memory(200, 'x');
    nixl_reg_dlist_t halves(DRAM_SEG);
    halves.addDesc(nixlBlobDesc(address(memory, 0), 100, 0, ""));
    halves.addDesc(nixlBlobDesc(address(memory, 100), 100, 0, ""));
    ASSERT_OK(a->registerMem(halves));
    nixlXferReqH *request = nullptr;
    ASSERT_OK(a->createXferReq(NIXL_WRITE, blocks(memory, {{90, 10}, {100, 10}}),
                               blocks(memoryB, {{0, 10}, {10, 10}}), "b", request));
    EXPECT_EQ(explain(request).blocks, 2u);
    EXPECT_OK(a->releaseXferReq(request));
    EXPECT_OK(a->deregisterMem(halves));
}

TEST_F(Requests, OnlyTheRegionsThatBlocksUseMatter) {
    std::string other(64, 'o');
    ASSERT_OK(a->registerMem(regions(other)));
    nixl_xfer_dlist_t both = blocks(memoryA, {{0, 8}});
    both.addDesc(nixlBasicDesc(address(other), 8, 0));
    nixlDlistH *local = nullptr, *remote = remoteList({{0, 8}, {8, 8}});
    ASSERT_OK(a->prepXferDlist(both, local));
    nixlXferReqH *request = nullptr, *usesOther = nullptr;
    ASSERT_OK(a->makeXferReq(NIXL_WRITE, local, {0}, remote, {0}, request));
    ASSERT_OK(a->makeXferReq(NIXL_WRITE, local, {1}, remote, {1}, usesOther));
    ASSERT_OK(a->deregisterMem(regions(other)));
    EXPECT_OK(a->postXferReq(request));
    EXPECT_STATUS(a->postXferReq(usesOther), NIXL_ERR_NOT_FOUND) << "stale after local deregistration";
    nixlXferReqH *fresh = nullptr;
    EXPECT_STATUS(a->makeXferReq(NIXL_WRITE, local, {1}, remote, {1}, fresh), NIXL_ERR_NOT_FOUND)
        << "so is the list";
    EXPECT_OK(a->makeXferReq(NIXL_WRITE, local, {0}, remote, {0}, fresh));
}

TEST_F(Requests, LoopBackWithinAnAgent) {
    nixlDlistH *local = localList({{0, 16}}), *remote = nullptr;
    ASSERT_OK(a->prepXferDlist("a", blocks(memoryA, {{1000, 16}}), remote));
    nixlXferReqH *request = nullptr;
    ASSERT_OK(a->makeXferReq(NIXL_WRITE, local, {0}, remote, {0}, request));
    EXPECT_OK(a->postXferReq(request));
    EXPECT_EQ(memoryA.substr(1000, 16), memoryA.substr(0, 16));
    ASSERT_OK(a->createXferReq(NIXL_READ, blocks(memoryA, {{2000, 5}}), blocks(memoryA, {{1000, 5}}), "a",
                               request));
    EXPECT_OK(a->postXferReq(request));
    EXPECT_EQ(memoryA.substr(2000, 5), memoryA.substr(0, 5));
}

TEST_F(Requests, RequestsOutliveTheirLists) {
    nixlDlistH *local = localList({{0, 16}}), *remote = remoteList({{64, 16}});
    nixlXferReqH *request = nullptr;
    ASSERT_OK(a->makeXferReq(NIXL_WRITE, local, {0}, remote, {0}, request));
    EXPECT_OK(a->releasedDlistH(local));
    EXPECT_OK(a->releasedDlistH(remote));
    EXPECT_OK(a->postXferReq(request));
    EXPECT_EQ(memoryB.substr(64, 16), memoryA.substr(0, 16));
}

TEST_F(Requests, TheOverloadWithReferencesAndSpans) {
    nixlDlistH *local = localList({{0, 16}}), *remote = remoteList({{64, 16}});
    const int zero[] = {0};
    nixlXferReqH *request = nullptr;
    EXPECT_OK(a->makeXferReq(NIXL_WRITE, *local, std::span<const int>(zero), *remote,
                             std::span<const int>(zero), request));
    EXPECT_OK(a->postXferReq(request));
    EXPECT_EQ(memoryB.substr(64, 16), memoryA.substr(0, 16));
}

TEST_F(Requests, CustomParametersReachTheEngineOnlyByCreate) {
    nixl_opt_args_t args;
    args.customParam = "worker_id=3";
    fake->clearCalls();
    simpleRequest(NIXL_WRITE, &args);
    std::string detail;
    for (const FakeCall &call : fake->calls()) {
        if (call.method == "prepare")
            detail = call.detail;
    }
    EXPECT_THAT(detail, HasSubstr("worker_id=3"));
}

TEST_F(Requests, AnEngineThatCannotPrepare) {
    script([](FakeScript &s) { s.prepare = Status(NIXL_ERR_INVALID_PARAM, "wrong sides"); });
    nixlXferReqH *request = nullptr;
    EXPECT_STATUS(
        a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 8}}), blocks(memoryB, {{0, 8}}), "b", request),
        NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(request, nullptr);
    EXPECT_THAT(nixl_last_error(), HasSubstr("wrong sides"));
    EXPECT_EQ(fake->live().requests, 0);
}

TEST_F(Requests, MemoryViewsSayWhyThereAreNone) {
    nixlMemViewH view = nullptr;
    nixl_remote_dlist_t remote(DRAM_SEG);
    remote.addDesc(nixlRemoteDesc(address(memoryB), 8, 0, "nobody"));
    EXPECT_STATUS(a->prepMemView(remote, view), NIXL_ERR_NOT_FOUND);
    remote[0].remoteAgent = nixl_null_agent;
    EXPECT_STATUS(a->prepMemView(remote, view), NIXL_ERR_NOT_FOUND);
    remote[0].remoteAgent = "b";
    EXPECT_STATUS(a->prepMemView(remote, view), NIXL_ERR_NOT_SUPPORTED);
    EXPECT_THAT(nixl_last_error(), HasSubstr("device"));
    EXPECT_STATUS(a->prepMemView(nixl_local_dlist_t(DRAM_SEG), view), NIXL_ERR_NOT_SUPPORTED);
    EXPECT_STATUS(a->prepMemView(nixl_local_dlist_t(VRAM_SEG), view), NIXL_ERR_NOT_FOUND);
    test::LogCapture log;
    a->releaseMemView(reinterpret_cast<nixlMemViewH>(0x10));
    EXPECT_EQ(log.count("not a memory view", LogLevel::kWarn), 1u);
}

/// An agent with an unbounded file, where any number is a legal range.
class Unbounded : public AgentTest {
protected:
    void
    SetUp() override {
        fake->memories = {DRAM_SEG, FILE_SEG};
        makeAgents();
        nixl_reg_dlist_t file(FILE_SEG);
        file.addDesc(nixlBlobDesc(0, 0, 7, ""));
        ASSERT_OK(a->registerMem(file));
    }
};

TEST_F(Unbounded, MorePiecesThanCanBeNumbered) {
    nixl_stride_dlist_t rows(FILE_SEG);
    rows.addDesc(nixlStrideDesc(0, 1, 7, 1, std::size_t{1} << 63));
    rows.addDesc(nixlStrideDesc(0, 1, 7, 1, std::size_t{1} << 63));
    rows.addDesc(nixlStrideDesc(0, 1, 7, 1, 3));
    nixlDlistH *list = nullptr;
    EXPECT_STATUS(a->prepXferDlist("a", rows, list), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(nixl_last_error(), HasSubstr("row 1"));
}

TEST_F(Unbounded, LengthsThatAddUpToTooMuch) {
    nixl_xfer_dlist_t halves(FILE_SEG);
    for (int i = 0; i < 2; ++i)
        halves.addDesc(nixlBasicDesc(0, std::size_t{1} << 63, 7));
    nixlXferReqH *request = nullptr;
    EXPECT_STATUS(a->createXferReq(NIXL_WRITE, halves, halves, "a", request), NIXL_ERR_INVALID_PARAM);
    EXPECT_THAT(nixl_last_error(), HasSubstr("position 1"));
}

} // namespace
} // namespace nixl
