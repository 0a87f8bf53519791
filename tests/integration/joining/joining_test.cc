// LOCAL beside a network engine. The network is a fake of this process: it finds no agent of another one, so
// that whatever arrives there has come over LOCAL.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "engine/process_registry.h"
#include "engines/local/entry.h"
#include "nixl.h"
#include "nixl_ext.h"
#include "support/child_process.h"
#include "support/fake_engine.h"
#include "support/log_capture.h"

namespace nixl {

// The tests bring their engines themselves.
BuiltinEngines
builtinEngines() {
    return {};
}

namespace {

using test::LogCapture;
using ::testing::HasSubstr;

#define EXPECT_STATUS(call, expected)                                                                        \
    EXPECT_EQ(nixlEnumStrings::statusStr(call), nixlEnumStrings::statusStr(expected)) << nixl_last_error()
#define EXPECT_OK(call) EXPECT_STATUS(call, NIXL_SUCCESS)
#define ASSERT_OK(call) ASSERT_EQ(nixlEnumStrings::statusStr(call), "NIXL_SUCCESS") << nixl_last_error()

/// An agent whose program asked for NET, with registered memory.
struct Program {
    explicit Program(const std::string &name, bool networkStarts = true) {
        net->name = "NET";
        net->network = true;
        net->edit([](FakeScript &s) { s.path.latencyUs = 1000; });
        if (!networkStarts)
            net->edit([](FakeScript &s) { s.create = Status(NIXL_ERR_BACKEND, "no network library"); });
        overrideProcessRegistry(std::make_shared<EngineRegistry>(
            std::vector<std::shared_ptr<EngineFactory>>{makeLocalEngineFactory(),
                                                        std::make_shared<FakeEngineFactory>(net)},
            std::vector<ModuleAdapter>(), std::vector<std::string>()));
        agent = std::make_unique<nixlAgent>(name, nixlAgentConfig());
        EXPECT_OK(agent->createBackend("NET", {}, backend));
        nixl_reg_dlist_t list(DRAM_SEG);
        list.addDesc(nixlBlobDesc(address(), memory.size(), 0, ""));
        EXPECT_OK(agent->registerMem(list));
    }

    ~Program() {
        agent.reset();
        overrideProcessRegistry(nullptr);
        EXPECT_THAT(net->violations(), ::testing::IsEmpty());
    }

    std::uintptr_t
    address() const {
        return reinterpret_cast<std::uintptr_t>(memory.data());
    }

    std::string
    metadata() const {
        nixl_blob_t blob;
        EXPECT_OK(agent->getLocalMD(blob));
        return blob;
    }

    nixl_status_t
    request(nixl_xfer_op_t operation, const std::string &peer, std::uintptr_t remote, nixlXferReqH *&out,
            const std::string &notification = "") const {
        nixl_xfer_dlist_t here(DRAM_SEG), there(DRAM_SEG);
        here.addDesc(nixlBasicDesc(address(), memory.size(), 0));
        there.addDesc(nixlBasicDesc(remote, memory.size(), 0));
        nixl_opt_args_t args;
        args.backends = {backend};
        if (!notification.empty())
            args.notif = notification;
        return agent->createXferReq(operation, here, there, peer, out, &args);
    }

    nixl_status_t
    run(nixlXferReqH *request) const {
        nixl_status_t status = agent->postXferReq(request);
        while (status == NIXL_IN_PROG)
            status = agent->getXferStatus(request);
        return status;
    }

    /// Waits for `count` messages of a peer, as the backend NET has them.
    std::string
    messages(const std::string &from, std::size_t count) const {
        nixl_opt_args_t args;
        args.backends = {backend};
        nixl_notifs_t notifs;
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (notifs[from].size() < count && std::chrono::steady_clock::now() < end) {
            EXPECT_OK(agent->getNotifs(notifs, &args));
            std::this_thread::yield();
        }
        std::string all;
        for (const std::string &message : notifs[from])
            all += message + ",";
        return all;
    }

    const std::shared_ptr<FakeSettings> net = std::make_shared<FakeSettings>();
    std::string memory = std::string(1 << 20, 'p');
    std::unique_ptr<nixlAgent> agent;
    nixlBackendH *backend = nullptr;
};

/// The other process. The first order says whether its network starts.
void
peerProcess(Line &line) {
    Program program("b", line.receive() == "net");
    program.memory.assign(program.memory.size(), 'b');
    line.send(program.metadata());
    line.send(std::to_string(program.address()));
    for (std::string order = line.receive(); order != "quit"; order = line.receive()) {
        if (order == "load") {
            std::string who;
            EXPECT_OK(program.agent->loadRemoteMD(line.receive(), who));
            EXPECT_OK(program.agent->genNotif("a", "hello"));
            line.send("ok");
        } else if (order == "memory") {
            line.send(program.memory);
        } else if (order == "messages") {
            line.send(program.messages("a", std::stoull(line.receive())));
        }
    }
}

class JoinedProcesses : public ::testing::TestWithParam<bool> {
protected:
    void
    start(bool networkStarts) {
        child_ = std::make_unique<ChildProcess>(peerProcess);
        a_ = std::make_unique<Program>("a", networkStarts);
        line().send(networkStarts ? "net" : "none");
        const std::string blob = line().receive();
        remote_ = std::stoull(line().receive());
        std::string who;
        ASSERT_OK(a_->agent->loadRemoteMD(blob, who));
    }

    Line
    line() const {
        return child_->line();
    }

    bool
    knowsB() const {
        return a_->agent->checkRemoteMD("b", nixl_xfer_dlist_t(DRAM_SEG)) == NIXL_SUCCESS;
    }

    std::unique_ptr<ChildProcess> child_;
    std::unique_ptr<Program> a_;
    std::uintptr_t remote_ = 0;
};

TEST_P(JoinedProcesses, TransfersAndMessagesGoOverLocalInTheNameOfTheNetwork) {
    start(GetParam());
    nixlXferReqH *write = nullptr, *read = nullptr;
    ASSERT_OK(a_->request(NIXL_READ, "b", remote_, read));
    ASSERT_OK(a_->request(NIXL_WRITE, "b", remote_, write, "2"));
    nixlBackendH *backend = nullptr;
    ASSERT_OK(a_->agent->queryXferBackend(write, backend));
    EXPECT_EQ(backend, a_->backend);
    nixlPathExplanation why;
    ASSERT_OK(nixlExplain(*a_->agent, write, why));
    EXPECT_EQ(why.backend, "NET");
    EXPECT_EQ(why.path, "LOCAL process_vm");

    ASSERT_OK(a_->run(read));
    EXPECT_TRUE(a_->memory == std::string(a_->memory.size(), 'b'));
    a_->memory.assign(a_->memory.size(), 'w');
    ASSERT_OK(a_->agent->genNotif("b", "1"));
    ASSERT_OK(a_->run(write));
    ASSERT_OK(a_->agent->genNotif("b", "3"));
    line().send("messages");
    line().send("3");
    EXPECT_EQ(line().receive(), "1,2,3,");
    line().send("memory");
    EXPECT_TRUE(line().receive() == std::string(a_->memory.size(), 'w'));

    line().send("load");
    line().send(a_->metadata());
    ASSERT_EQ(line().receive(), "ok");
    EXPECT_EQ(a_->messages("b", 1), "hello,");
    line().send("quit");
    EXPECT_EQ(child_->wait(), 0);
    EXPECT_EQ(a_->net->count("notify") + a_->net->count("post"), 0u);
}

TEST_P(JoinedProcesses, APeerThatWasMetAndDiedIsGoneAtOnce) {
    start(GetParam());
    nixlXferReqH *write = nullptr, *other = nullptr;
    ASSERT_OK(a_->request(NIXL_WRITE, "b", remote_, write));
    ASSERT_OK(a_->run(write));
    child_->signal(SIGKILL);
    child_->wait();
    EXPECT_STATUS(a_->run(write), NIXL_ERR_REMOTE_DISCONNECT);
    EXPECT_FALSE(knowsB());
    EXPECT_STATUS(a_->request(NIXL_WRITE, "b", remote_, other), NIXL_ERR_NOT_FOUND);
}

TEST_P(JoinedProcesses, APeerThatDiedBeforeItWasMetIsGoneAtOnce) {
    start(GetParam());
    child_->signal(SIGKILL);
    child_->wait();
    nixlXferReqH *write = nullptr;
    EXPECT_STATUS(a_->request(NIXL_WRITE, "b", remote_, write), NIXL_ERR_REMOTE_DISCONNECT);
    EXPECT_FALSE(knowsB());
}

TEST_P(JoinedProcesses, AMessageTellsOfTheDeathToo) {
    start(GetParam());
    ASSERT_OK(a_->agent->genNotif("b", "x"));
    child_->signal(SIGKILL);
    child_->wait();
    EXPECT_STATUS(a_->agent->genNotif("b", "y"), NIXL_ERR_REMOTE_DISCONNECT);
    EXPECT_FALSE(knowsB());
}

INSTANTIATE_TEST_SUITE_P(Network, JoinedProcesses, ::testing::Values(true, false),
                         [](const auto &test) { return test.param ? "Starts" : "IsStoodInFor"; });

TEST(JoinedAgents, OfOneProcessCopy) {
    Program a("a"), b("b");
    std::string who;
    ASSERT_OK(a.agent->loadRemoteMD(b.metadata(), who));
    nixlXferReqH *write = nullptr;
    a.memory.assign(a.memory.size(), 'q');
    ASSERT_OK(a.request(NIXL_WRITE, "b", b.address(), write, "x"));
    nixlPathExplanation why;
    ASSERT_OK(nixlExplain(*a.agent, write, why));
    EXPECT_EQ(why.path, "LOCAL same process");
    ASSERT_OK(a.run(write));
    EXPECT_TRUE(b.memory == std::string(b.memory.size(), 'q'));
    EXPECT_EQ(b.messages("a", 1), "x,");
    EXPECT_OK(a.agent->releaseXferReq(write));
}

TEST(JoinedAgents, LocalCanBeSwitchedOff) {
    setenv("NIXL_LOCAL", "off", 1);
    {
        LogCapture log;
        Program a("a"), b("b");
        std::string who;
        ASSERT_OK(a.agent->loadRemoteMD(b.metadata(), who));
        nixlXferReqH *write = nullptr;
        ASSERT_OK(a.request(NIXL_WRITE, "b", b.address(), write, "x"));
        EXPECT_EQ(log.count("", LogLevel::kWarn), 0u);
        nixlPathExplanation why;
        ASSERT_OK(nixlExplain(*a.agent, write, why));
        EXPECT_EQ(why.path, "memory");
        EXPECT_THAT(why.toString(), HasSubstr("NET, LOCAL: switched off by NIXL_LOCAL"));
        EXPECT_OK(a.agent->releaseXferReq(write));

        auto broken = std::make_shared<FakeSettings>();
        broken->name = "NET";
        broken->network = true;
        broken->edit([](FakeScript &s) { s.create = Status(NIXL_ERR_BACKEND, "no network library"); });
        overrideProcessRegistry(std::make_shared<EngineRegistry>(
            std::vector<std::shared_ptr<EngineFactory>>{makeLocalEngineFactory(),
                                                        std::make_shared<FakeEngineFactory>(broken)},
            std::vector<ModuleAdapter>(), std::vector<std::string>()));
        nixlAgent alone("c", nixlAgentConfig());
        nixlBackendH *backend = nullptr;
        EXPECT_STATUS(alone.createBackend("NET", {}, backend), NIXL_ERR_BACKEND);
        EXPECT_THAT(nixl_last_error(), HasSubstr("switched off by NIXL_LOCAL"));
    }
    unsetenv("NIXL_LOCAL");
}

} // namespace
} // namespace nixl
