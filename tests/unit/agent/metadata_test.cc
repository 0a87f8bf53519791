#include "unit/agent/agent_fixture.h"

#include "wire/metadata_blob.h"

namespace nixl {
namespace {

using ::testing::HasSubstr;

class Metadata : public AgentTest {
protected:
    static nixl_reg_dlist_t
    piece(const std::string &memory, std::size_t offset, std::size_t length) {
        nixl_reg_dlist_t list(DRAM_SEG);
        list.addDesc(nixlBlobDesc(address(memory, offset), length, 0, ""));
        return list;
    }

    nixl_blob_t
    blobOfB() {
        nixl_blob_t blob;
        EXPECT_OK(b->getLocalMD(blob));
        return blob;
    }

    nixl_status_t
    loadIntoA(const nixl_blob_t &blob) {
        std::string who;
        return a->loadRemoteMD(blob, who);
    }

    bool
    knows(std::size_t offset, std::size_t length) {
        return a->checkRemoteMD("b", blocks(memoryB, {{offset, length}})) == NIXL_SUCCESS;
    }

    MetadataBlob
    decoded(const nixl_blob_t &blob) {
        auto result = decodeMetadata(blob);
        EXPECT_TRUE(result.ok()) << result.status().message();
        return result.value();
    }
};

TEST_F(Metadata, AnAgentWithoutRemoteEnginesHasNone) {
    fake->remote = false;
    makeAgents();
    nixl_blob_t blob;
    EXPECT_STATUS(a->getLocalMD(blob), NIXL_ERR_INVALID_PARAM);
    EXPECT_OK(a->getLocalPartialMD(nixl_reg_dlist_t(DRAM_SEG), blob)) << "nothing, but metadata";
    const MetadataBlob empty = decoded(blob);
    EXPECT_TRUE(empty.connections.empty());
    EXPECT_TRUE(empty.sections.empty());
    ASSERT_OK(a->registerMem(regions(memoryA)));
    EXPECT_STATUS(a->getLocalPartialMD(regions(memoryA), blob), NIXL_ERR_BACKEND);
}

TEST_F(Metadata, LoadingTellsTheNameAndTheRegions) {
    makeAgents();
    EXPECT_STATUS(a->checkRemoteMD("b", nixl_xfer_dlist_t(DRAM_SEG)), NIXL_ERR_NOT_FOUND);
    connect();
    EXPECT_OK(a->checkRemoteMD("b", nixl_xfer_dlist_t(DRAM_SEG)));
    EXPECT_TRUE(knows(0, 4096));
    EXPECT_FALSE(knows(1, 4096));
    EXPECT_STATUS(a->checkRemoteMD("c", nixl_xfer_dlist_t(DRAM_SEG)), NIXL_ERR_NOT_FOUND);
}

TEST_F(Metadata, LoadingConnectsToNobody) {
    makeAgents();
    connect();
    EXPECT_EQ(fake->count("connect"), 0u);
    EXPECT_EQ(fake->count("path"), 0u);
}

TEST_F(Metadata, TheOwnMetadataIsRefused) {
    makeAgents();
    nixl_blob_t blob;
    ASSERT_OK(a->getLocalMD(blob));
    EXPECT_STATUS(loadIntoA(blob), NIXL_ERR_INVALID_PARAM);
    EXPECT_STATUS(a->checkRemoteMD("a", nixl_xfer_dlist_t(DRAM_SEG)), NIXL_ERR_NOT_FOUND);
    ASSERT_OK(a->registerMem(regions(memoryA)));
    EXPECT_OK(a->checkRemoteMD("a", nixl_xfer_dlist_t(DRAM_SEG)));
}

TEST_F(Metadata, RubbishIsAMismatchAndChangesNothing) {
    makeAgents();
    connect();
    for (const std::string &bad :
         {std::string(), std::string("x"), std::string("nixlSerDes|"), blobOfB().substr(0, 60)}) {
        EXPECT_STATUS(loadIntoA(bad), NIXL_ERR_MISMATCH);
    }
    EXPECT_TRUE(knows(0, 4096));
}

TEST_F(Metadata, EveryTruncationAndFlippedByteKeepsWhatIsKnown) {
    makeAgents();
    connect();
    const nixl_blob_t blob = blobOfB();
    for (std::size_t length = 0; length < blob.size(); ++length) {
        (void)loadIntoA(blob.substr(0, length));
        ASSERT_TRUE(knows(0, 4096)) << "cut to " << length;
    }
    for (std::size_t at = 0; at < blob.size(); ++at) {
        nixl_blob_t flipped = blob;
        flipped[at] = static_cast<char>(flipped[at] ^ 0xFF);
        const nixl_status_t status = loadIntoA(flipped);
        // A changed incarnation is another life of the peer, which replaces this one; all else keeps it.
        if (status == NIXL_SUCCESS)
            load();
        ASSERT_TRUE(knows(0, 4096)) << "byte " << at;
    }
}

TEST_F(Metadata, NoEngineInCommon) {
    makeAgents();
    MetadataBlob blob = decoded(blobOfB());
    blob.connections[0].backend = "OTHER";
    blob.extension.reset();
    EXPECT_STATUS(loadIntoA(encodeMetadata(blob)), NIXL_ERR_BACKEND);
    EXPECT_THAT(nixl_last_error(), ::testing::AllOf(HasSubstr("OTHER"), HasSubstr("FAKE")));
    EXPECT_STATUS(a->checkRemoteMD("b", nixl_xfer_dlist_t(DRAM_SEG)), NIXL_ERR_NOT_FOUND);
}

TEST_F(Metadata, UnknownEnginesBesideAKnownOneAreSkipped) {
    makeAgents();
    ASSERT_OK(b->registerMem(regions(memoryB)));
    MetadataBlob blob = decoded(blobOfB());
    blob.connections.push_back({"OTHER", "bytes"});
    blob.sections.insert(blob.sections.begin(), {"OTHER", piece(memoryB, 0, 1)});
    blob.extension->keys.insert(blob.extension->keys.begin(), 5);
    EXPECT_OK(loadIntoA(encodeMetadata(blob)));
    EXPECT_TRUE(knows(0, 4096));
}

TEST_F(Metadata, MemoryWithoutAConnection) {
    makeAgents();
    ASSERT_OK(b->registerMem(regions(memoryB)));
    nixl_blob_t blob;
    ASSERT_OK(b->getLocalPartialMD(regions(memoryB), blob));
    EXPECT_STATUS(loadIntoA(blob), NIXL_ERR_NOT_FOUND) << "no connection is known yet";
    nixl_opt_args_t args;
    args.includeConnInfo = true;
    ASSERT_OK(b->getLocalPartialMD(regions(memoryB), blob, &args));
    EXPECT_OK(loadIntoA(blob));
    EXPECT_TRUE(knows(0, 4096));
}

TEST_F(Metadata, ConnectionFirstThenRegionsOneByOne) {
    makeAgents();
    ASSERT_OK(b->registerMem(piece(memoryB, 0, 100)));
    ASSERT_OK(b->registerMem(piece(memoryB, 200, 100)));
    nixl_blob_t blob;
    ASSERT_OK(b->getLocalPartialMD(nixl_reg_dlist_t(DRAM_SEG), blob));
    EXPECT_OK(loadIntoA(blob));
    EXPECT_OK(a->checkRemoteMD("b", nixl_xfer_dlist_t(DRAM_SEG)));
    EXPECT_FALSE(knows(0, 100));
    ASSERT_OK(b->getLocalPartialMD(piece(memoryB, 200, 100), blob));
    EXPECT_OK(loadIntoA(blob));
    EXPECT_TRUE(knows(200, 100));
    EXPECT_FALSE(knows(0, 100));
    ASSERT_OK(b->getLocalPartialMD(piece(memoryB, 0, 100), blob));
    EXPECT_OK(loadIntoA(blob));
    EXPECT_TRUE(knows(0, 100));
    EXPECT_TRUE(knows(200, 100)) << "a partial blob only adds";
    EXPECT_EQ(fake->count("loadPeer"), 1u) << "the connection is kept";
}

TEST_F(Metadata, PartialNeedsExactRegistrations) {
    makeAgents();
    nixl_blob_t blob;
    EXPECT_STATUS(b->getLocalPartialMD(piece(memoryB, 0, 100), blob), NIXL_ERR_NOT_FOUND);
    ASSERT_OK(b->registerMem(piece(memoryB, 0, 100)));
    EXPECT_STATUS(b->getLocalPartialMD(piece(memoryB, 0, 50), blob), NIXL_ERR_NOT_FOUND);
}

TEST_F(Metadata, LoadingAgainIsIdempotent) {
    makeAgents();
    connect();
    nixlXferReqH *request = simpleRequest();
    const nixl_blob_t blob = blobOfB();
    EXPECT_OK(loadIntoA(blob));
    EXPECT_OK(loadIntoA(blob));
    EXPECT_EQ(fake->live().remoteRegions, 2 + 1) << "two loop-back forms and one region of b";
    EXPECT_OK(a->postXferReq(request)) << "requests live on";
    EXPECT_OK(a->releaseXferReq(request));
}

TEST_F(Metadata, BeforeRegisteringAndAgainAfter) {
    makeAgents();
    EXPECT_OK(loadIntoA(blobOfB())) << "no region yet";
    ASSERT_OK(b->registerMem(piece(memoryB, 0, 100)));
    EXPECT_OK(loadIntoA(blobOfB()));
    EXPECT_TRUE(knows(0, 100));
    ASSERT_OK(b->registerMem(piece(memoryB, 100, 100)));
    EXPECT_OK(loadIntoA(blobOfB()));
    EXPECT_TRUE(knows(100, 100));
    EXPECT_EQ(fake->count("loadPeer"), 1u);
}

TEST_F(Metadata, ANewerFullBlobDropsRegions) {
    makeAgents();
    ASSERT_OK(b->registerMem(piece(memoryB, 0, 100)));
    ASSERT_OK(b->registerMem(piece(memoryB, 200, 100)));
    const nixl_blob_t old = blobOfB();
    ASSERT_OK(a->registerMem(regions(memoryA)));
    ASSERT_OK(loadIntoA(old));
    nixlXferReqH *stale = nullptr, *good = nullptr;
    ASSERT_OK(
        a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 10}}), blocks(memoryB, {{0, 10}}), "b", stale));
    ASSERT_OK(
        a->createXferReq(NIXL_WRITE, blocks(memoryA, {{0, 10}}), blocks(memoryB, {{200, 10}}), "b", good));
    ASSERT_OK(b->deregisterMem(piece(memoryB, 0, 100)));
    ASSERT_OK(loadIntoA(blobOfB()));
    EXPECT_FALSE(knows(0, 100));
    EXPECT_TRUE(knows(200, 100));
    EXPECT_STATUS(a->postXferReq(stale), NIXL_ERR_NOT_FOUND);
    EXPECT_OK(a->postXferReq(good));
    EXPECT_OK(loadIntoA(old)) << "an older blob is ignored";
    EXPECT_FALSE(knows(0, 100));
    EXPECT_OK(a->releaseXferReq(stale));
    EXPECT_OK(a->releaseXferReq(good));
}

TEST_F(Metadata, AnotherRegistrationOfTheSameRangeReplacesTheOld) {
    makeAgents();
    connect();
    nixlXferReqH *old = simpleRequest();
    ASSERT_OK(b->deregisterMem(regions(memoryB)));
    ASSERT_OK(b->registerMem(regions(memoryB)));
    ASSERT_OK(loadIntoA(blobOfB()));
    EXPECT_STATUS(a->postXferReq(old), NIXL_ERR_NOT_FOUND);
    nixlXferReqH *fresh = simpleRequest();
    EXPECT_OK(a->postXferReq(fresh));
    EXPECT_OK(a->releaseXferReq(old));
    EXPECT_OK(a->releaseXferReq(fresh));
}

TEST_F(Metadata, PlainNixlBlobsMayNotChangeWhatIsKnown) {
    makeAgents();
    ASSERT_OK(b->registerMem(regions(memoryB)));
    MetadataBlob plain = decoded(blobOfB());
    plain.extension.reset();
    ASSERT_OK(loadIntoA(encodeMetadata(plain)));
    EXPECT_OK(loadIntoA(encodeMetadata(plain)));
    MetadataBlob moved = plain;
    moved.connections[0].info += "x";
    EXPECT_STATUS(loadIntoA(encodeMetadata(moved)), NIXL_ERR_NOT_ALLOWED);
    MetadataBlob rekeyed = plain;
    rekeyed.sections[0].descs[0].metaInfo += "x";
    EXPECT_STATUS(loadIntoA(encodeMetadata(rekeyed)), NIXL_ERR_NOT_ALLOWED);
    EXPECT_TRUE(knows(0, 4096)) << "a refused blob changes nothing";
    EXPECT_OK(loadIntoA(encodeMetadata(plain)));
}

TEST_F(Metadata, ANewLifeOfThePeerReplacesTheOldOne) {
    makeAgents();
    connect();
    nixlXferReqH *old = simpleRequest();
    nixlDlistH *oldList = nullptr;
    ASSERT_OK(a->prepXferDlist("b", blocks(memoryB, {{0, 8}}), oldList));
    auto second = std::make_unique<nixlAgent>("b", nixlAgentConfig());
    nixlBackendH *backend = nullptr;
    ASSERT_OK(second->createBackend("FAKE", {}, backend));
    ASSERT_OK(second->registerMem(regions(memoryB)));
    b.swap(second);
    ASSERT_OK(loadIntoA(blobOfB()));
    EXPECT_STATUS(a->postXferReq(old), NIXL_ERR_NOT_FOUND);
    nixlDlistH *local = nullptr;
    nixlXferReqH *request = nullptr;
    ASSERT_OK(a->prepXferDlist(blocks(memoryA, {{0, 8}}), local));
    EXPECT_STATUS(a->makeXferReq(NIXL_WRITE, local, {0}, oldList, {0}, request), NIXL_ERR_NOT_FOUND);
    nixlXferReqH *fresh = simpleRequest();
    EXPECT_OK(a->postXferReq(fresh));
    for (nixlXferReqH *handle : {old, fresh})
        EXPECT_OK(a->releaseXferReq(handle));
    for (nixlDlistH *handle : {oldList, local})
        EXPECT_OK(a->releasedDlistH(handle));
    second.reset();
}

TEST_F(Metadata, AnEngineThatRefusesLeavesEverythingAsItWas) {
    makeAgents();
    connect();
    ASSERT_OK(b->registerMem(piece(memoryB, 8, 8)));
    script([](FakeScript &s) { s.loadRegion = Status(NIXL_ERR_BACKEND, "bad key"); });
    EXPECT_STATUS(loadIntoA(blobOfB()), NIXL_ERR_BACKEND);
    EXPECT_THAT(nixl_last_error(), HasSubstr("bad key"));
    EXPECT_TRUE(knows(0, 4096));
    script([](FakeScript &s) {
        s.loadRegion = Status();
        s.loadPeer = Status(NIXL_ERR_MISMATCH, "bad address");
    });
    EXPECT_OK(loadIntoA(blobOfB())) << "the connection is known already";
}

TEST_F(Metadata, InvalidatedPeersAreForgotten) {
    makeAgents();
    EXPECT_STATUS(a->invalidateRemoteMD("a"), NIXL_ERR_INVALID_PARAM);
    EXPECT_STATUS(a->invalidateRemoteMD("b"), NIXL_ERR_NOT_FOUND);
    connect();
    nixlXferReqH *request = simpleRequest();
    EXPECT_OK(a->invalidateRemoteMD("b"));
    EXPECT_FALSE(knows(0, 1));
    EXPECT_STATUS(a->postXferReq(request), NIXL_ERR_NOT_FOUND);
    std::chrono::microseconds duration, margin;
    nixl_cost_t method;
    EXPECT_STATUS(a->estimateXferCost(request, duration, margin, method), NIXL_ERR_NOT_FOUND);
    load();
    EXPECT_STATUS(a->postXferReq(request), NIXL_ERR_NOT_FOUND) << "also after loading again";
    EXPECT_OK(a->releaseXferReq(request));
    EXPECT_EQ(fake->live().peers, 1) << "the old connection is gone with its last request";
}

TEST_F(Metadata, MakingConnections) {
    makeAgents();
    EXPECT_STATUS(a->makeConnection("b"), NIXL_ERR_NOT_FOUND);
    EXPECT_STATUS(a->makeConnection("a"), NIXL_ERR_NOT_FOUND);
    connect();
    EXPECT_OK(a->makeConnection("b"));
    EXPECT_EQ(fake->count("connect"), 1u);
    script([](FakeScript &s) { s.connect = Status(NIXL_ERR_BACKEND, "refused"); });
    EXPECT_STATUS(a->makeConnection("b"), NIXL_ERR_BACKEND);
    EXPECT_THAT(nixl_last_error(), HasSubstr("refused"));
    script([](FakeScript &s) { s.connect = Status(NIXL_ERR_REMOTE_DISCONNECT, "dead"); });
    EXPECT_STATUS(a->makeConnection("b"), NIXL_ERR_REMOTE_DISCONNECT);
    EXPECT_FALSE(knows(0, 1)) << "a dead peer is forgotten";
}

TEST_F(Metadata, ExchangeByTheLibraryIsNotSupportedYet) {
    makeAgents();
    nixl_opt_args_t args;
    args.ipAddr = "127.0.0.1";
    EXPECT_STATUS(a->sendLocalMD(&args), NIXL_ERR_NOT_SUPPORTED);
    EXPECT_THAT(nixl_last_error(), HasSubstr("sockets"));
    EXPECT_STATUS(a->sendLocalPartialMD(nixl_reg_dlist_t(DRAM_SEG)), NIXL_ERR_NOT_SUPPORTED);
    EXPECT_STATUS(a->fetchRemoteMD("b"), NIXL_ERR_NOT_SUPPORTED);
    EXPECT_STATUS(a->invalidateLocalMD(), NIXL_ERR_NOT_SUPPORTED);
}

TEST_F(Metadata, OfEqualRegistrationsOneIsPublished) {
    makeAgents();
    ASSERT_OK(b->registerMem(piece(memoryB, 0, 100)));
    const MetadataBlob before = decoded(blobOfB());
    ASSERT_OK(b->registerMem(piece(memoryB, 0, 100)));
    const MetadataBlob twice = decoded(blobOfB());
    EXPECT_EQ(twice.sections.at(0).descs.descCount(), 1);
    EXPECT_EQ(twice.extension->keys, before.extension->keys) << "peers keep what they know";
    ASSERT_OK(loadIntoA(blobOfB()));
    ASSERT_OK(b->deregisterMem(piece(memoryB, 0, 100)));
    EXPECT_EQ(decoded(blobOfB()).extension->keys, before.extension->keys);
}

TEST_F(Metadata, ARangeThatABlobNamesTwice) {
    makeAgents();
    for (const std::size_t offset : {0, 100, 200})
        ASSERT_OK(b->registerMem(piece(memoryB, offset, 50)));
    MetadataBlob blob = decoded(blobOfB());
    blob.extension.reset();
    nixl_reg_dlist_t &descs = blob.sections.at(0).descs;
    ASSERT_EQ(descs.descCount(), 3);
    const int ownOfB = fake->live().remoteRegions; // for loop-back
    // Behind its neighbour and far away; that the rest is in order must not hide it.
    for (const int position : {1, 3}) {
        nixl_reg_dlist_t list(DRAM_SEG);
        for (int i = 0; i < 3; ++i) {
            if (i == position)
                list.addDesc(descs[0]);
            list.addDesc(descs[static_cast<unsigned>(i)]);
        }
        if (position == 3)
            list.addDesc(descs[0]);
        MetadataBlob doubled = blob;
        doubled.sections.at(0).descs = list;
        EXPECT_OK(loadIntoA(encodeMetadata(doubled)));
        EXPECT_EQ(fake->live().remoteRegions, ownOfB + 3);
        EXPECT_TRUE(knows(0, 50) && knows(200, 50));
        EXPECT_OK(a->invalidateRemoteMD("b"));
        doubled.sections.at(0).descs[static_cast<unsigned>(position)].metaInfo = descs[2].metaInfo;
        EXPECT_STATUS(loadIntoA(encodeMetadata(doubled)), NIXL_ERR_NOT_ALLOWED);
        EXPECT_THAT(nixl_last_error(), HasSubstr("twice"));
        EXPECT_EQ(fake->live().remoteRegions, ownOfB);
    }
}

TEST_F(Metadata, AnExtensionMayGoWithoutKeys) {
    makeAgents();
    ASSERT_OK(b->registerMem(regions(memoryB)));
    MetadataBlob blob = decoded(blobOfB());
    blob.extension->keys.clear();
    EXPECT_OK(loadIntoA(encodeMetadata(blob))) << "of unknown regions";
    EXPECT_TRUE(knows(0, 4096));
    EXPECT_OK(loadIntoA(encodeMetadata(blob))) << "of known ones";
    EXPECT_TRUE(knows(0, 4096));
}

TEST_F(Metadata, PartialBlobsMayComeInAnyOrder) {
    makeAgents();
    nixl_opt_args_t args;
    args.includeConnInfo = true;
    nixl_blob_t first, second;
    ASSERT_OK(b->registerMem(piece(memoryB, 0, 100)));
    ASSERT_OK(b->getLocalPartialMD(piece(memoryB, 0, 100), first, &args));
    ASSERT_OK(b->registerMem(piece(memoryB, 200, 100)));
    ASSERT_OK(b->getLocalPartialMD(piece(memoryB, 200, 100), second, &args));
    EXPECT_OK(loadIntoA(second));
    EXPECT_OK(loadIntoA(first));
    EXPECT_TRUE(knows(0, 100));
    EXPECT_TRUE(knows(200, 100));
    // A full blob settles what was before it.
    ASSERT_OK(b->deregisterMem(piece(memoryB, 0, 100)));
    EXPECT_OK(loadIntoA(blobOfB()));
    EXPECT_OK(loadIntoA(first));
    EXPECT_FALSE(knows(0, 100));
}

TEST_F(Metadata, ARefusedBlobOfAnotherLifeLeavesNoHalfKnownPeer) {
    makeAgents();
    connect();
    const nixl_blob_t good = blobOfB();
    MetadataBlob other = decoded(good);
    other.extension->incarnation[0] = static_cast<std::uint8_t>(other.extension->incarnation[0] ^ 1);
    script([](FakeScript &s) { s.loadRegion = Status(NIXL_ERR_MISMATCH, "bad region"); });
    EXPECT_STATUS(loadIntoA(encodeMetadata(other)), NIXL_ERR_MISMATCH);
    script([](FakeScript &s) { s.loadRegion = Status(); });
    EXPECT_STATUS(a->checkRemoteMD("b", nixl_xfer_dlist_t(DRAM_SEG)), NIXL_ERR_NOT_FOUND);
    EXPECT_OK(loadIntoA(good));
    EXPECT_OK(a->postXferReq(simpleRequest()));
}

} // namespace
} // namespace nixl
