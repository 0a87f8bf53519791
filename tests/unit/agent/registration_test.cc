#include "unit/agent/agent_fixture.h"

#include <limits>

namespace nixl {
namespace {

class Registration : public AgentTest {
protected:
    static nixl_reg_dlist_t
    list(std::vector<nixlBlobDesc> descs, nixl_mem_t memory = DRAM_SEG) {
        nixl_reg_dlist_t out(memory);
        for (const nixlBlobDesc &desc : descs)
            out.addDesc(desc);
        return out;
    }

    nixlBlobDesc
    piece(std::size_t offset, std::size_t length) const {
        return nixlBlobDesc(address(memoryA, offset), length, 0, "");
    }

    nixl_status_t
    prepare(std::size_t offset, std::size_t length) {
        nixlDlistH *handle = nullptr;
        const nixl_status_t status = a->prepXferDlist(blocks(memoryA, {{offset, length}}), handle);
        if (status == NIXL_SUCCESS) {
            EXPECT_OK(a->releasedDlistH(handle));
        }
        return status;
    }
};

TEST_F(Registration, NoEngineForTheMemory) {
    makeAgents();
    EXPECT_STATUS(a->registerMem(list({{0, 0, 3, "key"}}, OBJ_SEG)), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(nixl_last_error(), ::testing::HasSubstr("OBJ_SEG"));
    EXPECT_STATUS(a->deregisterMem(list({{0, 0, 3, "key"}}, OBJ_SEG)), NIXL_ERR_NOT_FOUND);
    nixl_opt_args_t args;
    args.backends = {backendsOfA[0]};
    EXPECT_STATUS(a->registerMem(list({{0, 0, 3, "key"}}, OBJ_SEG), &args), NIXL_ERR_BACKEND)
        << "named, but not its kind";
}

TEST_F(Registration, AnEngineThatWouldTakeTheMemoryElsewhereSaysWhyNotHere) {
    fake->refused = {{VRAM_SEG, "this host has no CUDA driver"}};
    makeAgents();
    const std::string text = "VRAM_SEG: FAKE: this host has no CUDA driver";
    EXPECT_STATUS(a->registerMem(list({piece(0, 8)}, VRAM_SEG)), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(nixl_last_error(), ::testing::HasSubstr(text));
    nixl_opt_args_t args;
    args.backends = {backendsOfA[0]};
    EXPECT_STATUS(a->registerMem(list({piece(0, 8)}, VRAM_SEG), &args), NIXL_ERR_BACKEND);
    EXPECT_THAT(nixl_last_error(), ::testing::HasSubstr("VRAM_SEG: this host has no CUDA driver"));
    EXPECT_STATUS(a->registerMem(list({{0, 0, 3, "key"}}, OBJ_SEG)), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(nixl_last_error(), ::testing::Not(::testing::HasSubstr("CUDA"))) << "another kind";
}

TEST_F(Registration, EmptyLists) {
    makeAgents();
    EXPECT_STATUS(a->registerMem(list({})), NIXL_ERR_BACKEND);
    EXPECT_STATUS(a->deregisterMem(list({})), NIXL_ERR_NOT_FOUND) << "nothing of this kind";
    ASSERT_OK(a->registerMem(list({piece(0, 10)})));
    EXPECT_OK(a->deregisterMem(list({})));
}

TEST_F(Registration, IllegalRangesNameTheElement) {
    makeAgents();
    const auto refused = [&](nixlBlobDesc bad) {
        const std::size_t before = fake->count("registerRegion");
        EXPECT_STATUS(a->registerMem(list({piece(0, 10), bad})), NIXL_ERR_INVALID_PARAM);
        EXPECT_THAT(nixl_last_error(), ::testing::HasSubstr("descriptor 1"));
        EXPECT_EQ(fake->count("registerRegion"), before) << "nothing was tried";
    };
    refused(nixlBlobDesc(address(memoryA), 0, 0, ""));
    refused(nixlBlobDesc(~std::uintptr_t{0} - 5, 7, 0, ""));
    refused(nixlBlobDesc(address(memoryA), std::numeric_limits<std::size_t>::max(), 0, ""));
}

TEST_F(Registration, BackendsOfOthersAreRefused) {
    makeAgents();
    nixl_opt_args_t args;
    args.backends = {backendsOfA[0], backendsOfB[0]};
    EXPECT_STATUS(a->registerMem(regions(memoryA), &args), NIXL_ERR_INVALID_PARAM);
    EXPECT_THAT(nixl_last_error(), ::testing::HasSubstr("backend 1"));
}

TEST_F(Registration, AFailureInTheMiddleRegistersNothing) {
    makeAgents();
    script([](FakeScript &s) { s.failRegistrationAfter = 2; });
    EXPECT_STATUS(a->registerMem(list({piece(0, 10), piece(10, 10), piece(20, 10), piece(30, 10)})),
                  NIXL_ERR_BACKEND);
    EXPECT_THAT(nixl_last_error(), ::testing::HasSubstr("descriptor 2"));
    EXPECT_EQ(fake->count("deregisterRegion"), 2u);
    EXPECT_EQ(fake->live().localRegions, 0);
    EXPECT_STATUS(prepare(0, 10), NIXL_ERR_NOT_FOUND);
    // An agent whose registration failed still publishes metadata that others can load.
    nixl_blob_t blob;
    std::string who;
    ASSERT_OK(a->getLocalMD(blob));
    EXPECT_OK(b->loadRemoteMD(blob, who));
}

TEST_F(Registration, OneEngineIsEnough) {
    auto second = addEngine("SECOND");
    makeAgents();
    script([](FakeScript &s) { s.failRegistrationAfter = 0; });
    EXPECT_OK(a->registerMem(regions(memoryA)));
    EXPECT_EQ(fake->live().localRegions, 0);
    EXPECT_EQ(second->live().localRegions, 1);
    EXPECT_OK(a->deregisterMem(regions(memoryA))) << "wherever it is registered";
    EXPECT_EQ(second->live().localRegions, 0);
}

TEST_F(Registration, DeregisteringNeedsExactRanges) {
    makeAgents();
    ASSERT_OK(a->registerMem(list({piece(0, 100), piece(200, 100)})));
    EXPECT_STATUS(a->deregisterMem(list({piece(0, 50)})), NIXL_ERR_NOT_FOUND) << "a part";
    EXPECT_STATUS(a->deregisterMem(list({piece(0, 100), piece(200, 50)})), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(nixl_last_error(), ::testing::HasSubstr("nothing was deregistered"));
    EXPECT_OK(prepare(0, 100)) << "a failing list changes nothing";
    EXPECT_OK(a->deregisterMem(list({piece(0, 100), piece(200, 100)})));
    EXPECT_STATUS(prepare(0, 100), NIXL_ERR_NOT_FOUND);
    EXPECT_STATUS(a->deregisterMem(list({piece(0, 100)})), NIXL_ERR_NOT_FOUND) << "it is gone";
}

TEST_F(Registration, C13_RegisteredTwiceIsDeregisteredTwice) {
    makeAgents();
    ASSERT_OK(a->registerMem(list({piece(0, 100)})));
    ASSERT_OK(a->registerMem(list({piece(0, 100)})));
    EXPECT_EQ(fake->live().localRegions, 2);
    EXPECT_STATUS(a->deregisterMem(list({piece(0, 100), piece(0, 100), piece(0, 100)})), NIXL_ERR_NOT_FOUND);
    EXPECT_EQ(fake->live().localRegions, 2);
    EXPECT_OK(a->deregisterMem(list({piece(0, 100), piece(0, 100)})));
    EXPECT_EQ(fake->live().localRegions, 0);

    ASSERT_OK(a->registerMem(list({piece(0, 100), piece(0, 100)})));
    EXPECT_OK(a->deregisterMem(list({piece(0, 100)})));
    EXPECT_OK(prepare(0, 100)) << "one registration is left";
    EXPECT_STATUS(a->deregisterMem(list({piece(0, 100), piece(300, 7)})), NIXL_ERR_NOT_FOUND)
        << "one is unknown";
    EXPECT_OK(prepare(0, 100));
    EXPECT_OK(a->deregisterMem(list({piece(0, 100)})));
    EXPECT_STATUS(a->deregisterMem(list({piece(0, 100)})), NIXL_ERR_NOT_FOUND);
}

TEST_F(Registration, C19_ALargerRegionAtTheSameAddress) {
    makeAgents();
    ASSERT_OK(a->registerMem(list({piece(0, 1024)})));
    ASSERT_OK(a->registerMem(list({piece(0, 4096)})));
    EXPECT_OK(prepare(0, 4096));
    EXPECT_OK(a->deregisterMem(list({piece(0, 1024)})));
    EXPECT_OK(prepare(0, 1024)) << "the larger one covers it";
    EXPECT_OK(a->deregisterMem(list({piece(0, 4096)})));
    EXPECT_STATUS(prepare(0, 1), NIXL_ERR_NOT_FOUND);
}

TEST_F(Registration, UnboundedObjectsAndFiles) {
    fake->memories = {DRAM_SEG, FILE_SEG};
    makeAgents();
    ASSERT_OK(a->registerMem(list({{0, 0, 7, ""}}, FILE_SEG)));
    nixl_xfer_dlist_t far(FILE_SEG);
    far.addDesc(nixlBasicDesc(std::uintptr_t{5} << 30, 4096, 7));
    nixlDlistH *handle = nullptr;
    EXPECT_OK(a->prepXferDlist("a", far, handle));
    EXPECT_OK(a->releasedDlistH(handle));
    EXPECT_OK(a->deregisterMem(list({{0, 0, 7, ""}}, FILE_SEG)));
}

TEST_F(Registration, AnEngineThatCannotEndARegistrationKeepsItClosed) {
    makeAgents();
    ASSERT_OK(a->registerMem(list({piece(0, 100)})));
    script([](FakeScript &s) { s.deregister = Status(NIXL_ERR_BACKEND, "peer 'x' is copying"); });
    EXPECT_STATUS(a->deregisterMem(list({piece(0, 100)})), NIXL_ERR_BACKEND);
    EXPECT_THAT(nixl_last_error(), ::testing::HasSubstr("peer 'x' is copying"));
    EXPECT_STATUS(prepare(0, 100), NIXL_ERR_NOT_FOUND) << "closed to new transfers";
    script([](FakeScript &s) { s.deregister = Status(); });
    EXPECT_OK(a->deregisterMem(list({piece(0, 100)}))) << "it can be repeated";
    EXPECT_STATUS(a->deregisterMem(list({piece(0, 100)})), NIXL_ERR_NOT_FOUND);
    EXPECT_EQ(fake->live().localRegions, 0);
}

TEST_F(Registration, WhatAnEngineCannotEndOfAListStaysClosedAndTheRestEnds) {
    makeAgents();
    const nixl_reg_dlist_t all = list({piece(0, 10), piece(10, 20), piece(30, 30), piece(60, 40)});
    ASSERT_OK(a->registerMem(all));
    script([](FakeScript &s) {
        s.deregister = Status(NIXL_ERR_BACKEND, "peer 'x' is copying");
        s.failDeregistrationOf = {20, 40};
    });
    EXPECT_STATUS(a->deregisterMem(all), NIXL_ERR_BACKEND);
    EXPECT_THAT(nixl_last_error(), ::testing::HasSubstr("+ 20 (device 0): peer 'x' is copying"))
        << "the first";
    EXPECT_EQ(fake->count("deregisterRegion"), 4u) << "all are tried";
    for (const auto &[offset, length] : {std::pair{0u, 10u}, {10u, 20u}, {30u, 30u}, {60u, 40u}})
        EXPECT_STATUS(prepare(offset, length), NIXL_ERR_NOT_FOUND) << "closed to new transfers";
    EXPECT_STATUS(a->deregisterMem(all), NIXL_ERR_NOT_FOUND) << "two of them are gone";
    script([](FakeScript &s) { s.deregister = Status(); });
    EXPECT_OK(a->deregisterMem(list({piece(10, 20), piece(60, 40)})));
    EXPECT_EQ(fake->live().localRegions, 0);
}

TEST_F(Registration, AListMayNameARangeMoreOftenAndInAnyOrder) {
    makeAgents();
    ASSERT_OK(a->registerMem(list({piece(50, 10), piece(0, 10), piece(50, 10), piece(50, 10)})));
    EXPECT_STATUS(a->deregisterMem(list({piece(50, 10), piece(0, 10), piece(50, 10), piece(0, 10)})),
                  NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(nixl_last_error(), ::testing::HasSubstr("is registered 1 times and named 2 times"));
    EXPECT_OK(a->deregisterMem(list({piece(50, 10), piece(0, 10), piece(50, 10)})));
    EXPECT_EQ(fake->live().localRegions, 1);
    EXPECT_OK(prepare(50, 10));
    EXPECT_OK(a->deregisterMem(list({piece(50, 10)})));
}

TEST_F(Registration, QueriesNeedOneBackend) {
    makeAgents();
    std::vector<nixl_query_resp_t> answers;
    EXPECT_STATUS(a->queryMem(list({piece(0, 1)}), answers, nullptr), NIXL_ERR_INVALID_PARAM);
    nixl_opt_args_t args;
    args.backends = {backendsOfA[0]};
    EXPECT_OK(a->queryMem(list({piece(0, 1), piece(1, 1)}), answers, &args));
    EXPECT_EQ(answers.size(), 2u);
}

} // namespace
} // namespace nixl
