// Agents over NET, a network engine, and HOST, the engine that joins it.
#pragma once

#include "unit/agent/agent_fixture.h"
#include "wire/metadata_blob.h"

namespace nixl {

class Joining : public AgentTest {
protected:
    Joining() : net(fake), host(addEngine("HOST")) {
        net->name = "NET";
        net->network = true;
        host->joins = true;
    }

    /// Two agents that asked for these backends.
    void
    start(const std::vector<std::string> &ofA = {"NET"}, const std::vector<std::string> &ofB = {"NET"}) {
        useRegistry();
        a = std::make_unique<nixlAgent>("a", nixlAgentConfig());
        b = std::make_unique<nixlAgent>("b", nixlAgentConfig());
        for (const std::string &type : ofA)
            backendsOfA.push_back(create(*a, type));
        for (const std::string &type : ofB)
            backendsOfB.push_back(create(*b, type));
    }

    static nixlBackendH *
    create(nixlAgent &agent, const std::string &type, const nixl_b_params_t &params = {}) {
        nixlBackendH *backend = nullptr;
        EXPECT_OK(agent.createBackend(type, params, backend));
        return backend;
    }

    /// How often an engine was called on behalf of agent "a".
    static std::size_t
    callsOfA(const std::shared_ptr<FakeSettings> &engine, const std::string &method) {
        std::size_t count = 0;
        for (const FakeCall &call : engine->calls())
            count += call.agent == "a" && call.method == method;
        return count;
    }

    static nixl_opt_args_t
    only(nixlBackendH *backend) {
        nixl_opt_args_t args;
        args.backends = {backend};
        return args;
    }

    nixlPathExplanation
    explain(const nixlXferReqH *request) {
        nixlPathExplanation explanation;
        EXPECT_OK(nixlExplain(*a, request, explanation));
        return explanation;
    }

    /// Makes a request, and says who carries it: "NET, HOST memory".
    std::string
    way(const nixl_opt_args_t *args = nullptr) {
        nixlXferReqH *request = simpleRequest(NIXL_WRITE, args);
        const auto why = explain(request);
        EXPECT_OK(a->releaseXferReq(request));
        return why.backend + ", " + why.path;
    }

    std::vector<nixl_blob_t>
    atB(const nixl_opt_args_t *args = nullptr) {
        nixl_notifs_t notifs;
        EXPECT_OK(b->getNotifs(notifs, args));
        return notifs["a"];
    }

    static MetadataBlob
    metadata(nixlAgent &agent) {
        nixl_blob_t bytes;
        EXPECT_OK(agent.getLocalMD(bytes));
        auto blob = decodeMetadata(bytes);
        EXPECT_TRUE(blob.ok());
        return blob.value();
    }

    static std::vector<std::string>
    connections(const MetadataBlob &blob) {
        std::vector<std::string> names;
        for (const ConnectionEntry &entry : blob.connections)
            names.push_back(entry.backend);
        return names;
    }

    static std::vector<std::string>
    sections(const MetadataBlob &blob) {
        std::vector<std::string> names;
        for (const MetadataSection &section : blob.sections)
            names.push_back(section.backend);
        return names;
    }

    /// What is left of an agent's metadata, as another program would have written it.
    static nixl_blob_t
    onlyOf(nixlAgent &agent, const std::string &engine) {
        MetadataBlob blob = metadata(agent);
        std::erase_if(blob.connections,
                      [&](const ConnectionEntry &entry) { return entry.backend != engine; });
        std::erase_if(blob.sections,
                      [&](const MetadataSection &section) { return section.backend != engine; });
        blob.extension.reset();
        return encodeMetadata(blob);
    }

    bool
    knowsB() {
        return a->checkRemoteMD("b", nixl_xfer_dlist_t(DRAM_SEG)) == NIXL_SUCCESS;
    }

    const std::shared_ptr<FakeSettings> net, host;
};

} // namespace nixl
