// Who a peer is, and each reason not to reach it.
#include "local_fixture.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <array>
#include <cerrno>

#include "engines/local/engine.h"
#include "engines/local/life_page.h"
#include "engines/local/protocol.h"

namespace nixl::local {

namespace {

constexpr std::size_t kBytes = 64 << 10;
constexpr uid_t kNobody = 65534;
constexpr uid_t kOther = 65533;

bool
isRoot() {
    return geteuid() == 0;
}

/// Gives up root for good; the process stays dumpable, as one that was started by that user is.
void
becomeUser(uid_t user) {
    if (setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0)
        _exit(71);
    prctl(PR_SET_DUMPABLE, 1);
}

void
install(std::span<sock_filter> program) {
    const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        _exit(72);
}

/// Makes process_vm_readv and process_vm_writev fail with `error` in this process and its children.
void
forbidProcessVm(int error) {
    const auto answer = static_cast<unsigned>(SECCOMP_RET_ERRNO | error);
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, answer),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    install(program);
}

/// Makes process_vm_readv and process_vm_writev fail with `error` on all other processes.
void
forbidOtherProcesses(int error) {
    const auto answer = static_cast<unsigned>(SECCOMP_RET_ERRNO | error);
    const auto self = static_cast<unsigned>(getpid());
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)), // the pid
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, self, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, answer),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    install(program);
}

#if defined(__x86_64__)
/// Makes process_vm_writev claim that it wrote a challenge, and write nothing.
void
pretendToWrite() {
    struct sigaction action{};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int, siginfo_t *, void *context) {
        static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RAX] = sizeof(Challenge);
    };
    sigaction(SIGSYS, &action, nullptr);
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    install(program);
}
#endif

/// The status of reaching `target` from a child that did `before` first: "CODE message".
std::string
reachFromChild(const TargetProcess &target, const std::function<void()> &before) {
    ChildProcess initiator([&](Line &line) {
        before();
        Node node("initiator", kBytes);
        Node::Remote &remote = node.load("target", target.card());
        const Status status = node.pathTo(remote);
        line.send(concat(status.code(), " ", status.message()));
    });
    return initiator.line().receive();
}

Status
reach(const std::string &card, const std::string &agent = "target", const Options &options = {}) {
    Node node("initiator", kBytes, options);
    return node.pathTo(node.load(agent, card));
}

ConnectionInfo
infoOf(const std::string &card) {
    return decodeConnectionInfo(std::string_view(card).substr(24)).value();
}

std::string
withInfo(const std::string &card, const ConnectionInfo &info) {
    return card.substr(0, 24) + encodeConnectionInfo(info);
}

TEST(Identity, ReachesAProcessOfTheSameUser) {
    TargetProcess target(kBytes);
    const Status status = reach(target.card());
    EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Identity, UsersWithoutPrivilegesReachEachOther) {
    if (!isRoot())
        GTEST_SKIP() << "needs root to become another user";
    TargetProcess target(kBytes, {}, [] { becomeUser(kNobody); });
    EXPECT_EQ(reachFromChild(target, [] { becomeUser(kNobody); }), "0 ");
}

TEST(Identity, AnotherUserIsRefused) {
    if (!isRoot())
        GTEST_SKIP() << "needs root to become another user";
    TargetProcess target(kBytes, {}, [] { becomeUser(kNobody); });
    EXPECT_EQ(reachFromChild(target, [] { becomeUser(kOther); }),
              concat(NIXL_ERR_BACKEND, " agent 'target': it runs as user 65534, this process as user 65533"));
    // Root could touch that memory, but it is not the same user's.
    const Status status = reach(target.card());
    EXPECT_EQ(status.message(), "agent 'target': it runs as user 65534, this process as user 0");
}

TEST(Identity, ATargetThatIsNotDumpable) {
    if (!isRoot())
        GTEST_SKIP() << "needs root to become another user";
    TargetProcess target(kBytes, {}, [] {
        becomeUser(kNobody);
        prctl(PR_SET_DUMPABLE, 0);
    });
    EXPECT_EQ(reachFromChild(target, [] { becomeUser(kNobody); }),
              concat(NIXL_ERR_BACKEND, " agent 'target': the kernel refuses access to the memory of process ",
                     target.child().pid(),
                     ": it is not dumpable (PR_SET_DUMPABLE), or holds privileges that this process lacks"));
}

TEST(Identity, AnInitiatorThatIsNotDumpableIsServed) {
    if (!isRoot())
        GTEST_SKIP() << "needs root to become another user";
    TargetProcess target(kBytes, {}, [] { becomeUser(kNobody); });
    EXPECT_EQ(reachFromChild(target,
                             [] {
                                 becomeUser(kNobody);
                                 prctl(PR_SET_DUMPABLE, 0);
                             }),
              "0 ");
}

TEST(Identity, FilterInTheInitiator) {
    TargetProcess target(kBytes);
    for (const int error : {EPERM, ENOSYS}) {
        const std::string answer = reachFromChild(target, [&] { forbidProcessVm(error); });
        EXPECT_EQ(
            answer,
            concat(NIXL_ERR_BACKEND,
                   " agent 'target': process_vm_readv and process_vm_writev are blocked in this process (",
                   strerror(error), "): a seccomp filter, as containers have it?"));
    }
}

TEST(Identity, AMemoryThatTheKernelRefuses) {
    TargetProcess target(kBytes);
    const pid_t pid = target.child().pid();
    EXPECT_EQ(reachFromChild(target, [] { forbidOtherProcesses(EACCES); }),
              concat(NIXL_ERR_BACKEND, " agent 'target': the memory of process ", pid,
                     " cannot be accessed: ", strerror(EACCES)));
    // Which of the reasons for EPERM is given depends on the host.
    const std::string denied = reachFromChild(target, [] { forbidOtherProcesses(EPERM); });
    EXPECT_EQ(denied.find(concat(NIXL_ERR_BACKEND,
                                 " agent 'target': the kernel refuses access to the memory of process ", pid,
                                 ": ")),
              0U)
        << denied;
    EXPECT_TRUE(denied.find("a security module forbids it") != std::string::npos ||
                denied.find("kernel.yama.ptrace_scope is ") != std::string::npos)
        << denied;
}

#if defined(__x86_64__)
TEST(Identity, AWriteThatDoesNotArrive) {
    TargetProcess target(kBytes);
    EXPECT_EQ(reachFromChild(target, pretendToWrite),
              concat(NIXL_ERR_MISMATCH, " agent 'target': process ", target.child().pid(),
                     " does not hold what was written to it"));
}
#endif

TEST(Identity, RegistrationUnderAFilterFindsWhatIsNotMapped) {
    for (const int error : {EPERM, ENOSYS, EACCES}) {
        ChildProcess child([&](Line &line) {
            forbidProcessVm(error);
            Node node("agent", kBytes);
            const auto missing = node.engine().registerRegion(nixlBlobDesc(0x1000, 8192, 0), DRAM_SEG);
            line.send(missing.status().message());
        });
        EXPECT_EQ(child.line().receive(),
                  "the memory of 8192 bytes at 0x1000 cannot be registered: address 0x1000 "
                  "is unmapped or protected");
    }
}

TEST(Identity, TheTargetRefusesAnotherUser) {
    if (!isRoot())
        GTEST_SKIP() << "needs root to become another user";
    TargetProcess target(kBytes);
    // An honest initiator sees the user first and does not ask.
    ChildProcess stranger([&](Line &line) {
        becomeUser(kOther);
        auto socket = connectAbstract(socketName(infoOf(target.card()).incarnation),
                                      std::chrono::steady_clock::now() + 20s);
        Hello hello;
        hello.target = infoOf(target.card()).incarnation;
        const std::string bytes = encodeHello(hello);
        sendSome(socket.value().get(), std::array{std::string_view(bytes)});
        FrameReader reader;
        Frame frame{};
        while (!reader.next(frame).value())
            reader.readOnce(socket.value().get());
        line.send(frame.payload);
    });
    EXPECT_EQ(stranger.line().receive(), "you run as user 65533, this process as user 0");
}

TEST(Identity, ATargetWithTooManyConnectionsSaysSo) {
    const auto connecting = [](Line &line) {
        const std::string card = line.receive();
        Node node("initiator", kBytes);
        Node::Remote &remote = node.load("target", card);
        for (;;) {
            const Status status = node.pathTo(remote);
            line.send(concat(status.code(), " ", status.message()));
            line.receive();
        }
    };
    ChildProcess first(connecting);
    ChildProcess second(connecting);
    EngineConfig config;
    config.agentName = "target";
    Settings settings;
    settings.maxConnections = 1;
    const auto target = LocalEngine::create(config, settings);
    const std::string card =
        std::string(24, '\0').replace(16, 1, 1, '\1') + target.value()->connectionInfo().value();
    first.line().send(card);
    EXPECT_EQ(first.line().receive(), "0 ");
    second.line().send(card);
    EXPECT_EQ(second.line().receive(), concat(NIXL_ERR_BACKEND, " agent 'target': process ", getpid(),
                                              " refuses: it has 1 connections and accepts no more"));
    first.signal(SIGKILL);
    EXPECT_TRUE(eventually([&] { // the peer was not given up
        second.line().send("again");
        return second.line().receive() == "0 ";
    }));
}

TEST(Identity, FilterInTheTargetDoesNotMatter) {
    TargetProcess target(kBytes, {}, [] { forbidProcessVm(EPERM); });
    const Status status = reach(target.card());
    EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Identity, ForgedHintsChangeNothing) {
    TargetProcess target(kBytes);
    ChildProcess victim([](Line &line) { line.receive(); });
    ConnectionInfo info = infoOf(target.card());
    info.hints.pid = static_cast<std::uint32_t>(victim.pid());
    info.hints.pidNamespace = 1;
    Node node("initiator", kBytes);
    Node::Remote &remote = node.load("target", withInfo(target.card(), info));
    fillPattern(node.memory(), kBytes, 1);
    Move move(node, remote, NIXL_WRITE, {{0, 0, kBytes}});
    const Progress progress = move.run();
    ASSERT_EQ(progress.code, NIXL_SUCCESS) << progress.message;
    EXPECT_TRUE(target.ask(concat("m 0 ", kBytes)) == std::string(node.memory(), kBytes));
}

TEST(Identity, AnotherAgentBehindTheIncarnation) {
    TargetProcess target(kBytes);
    const Status status = reach(target.card(), "somebody");
    EXPECT_EQ(status.code(), NIXL_ERR_MISMATCH);
    EXPECT_EQ(status.message(), "agent 'somebody': agent 'target' answers on its socket");
    Node near("near", kBytes);
    EXPECT_EQ(reach(near.card(), "somebody").message(),
              "agent 'somebody': its incarnation belongs to agent 'near'");
}

TEST(Identity, AnIncarnationThatNobodyHas) {
    TargetProcess target(kBytes);
    ConnectionInfo info = infoOf(target.card());
    info.incarnation[3] ^= 1;
    const Status status = reach(withInfo(target.card(), info));
    EXPECT_EQ(status.code(), NIXL_ERR_REMOTE_DISCONNECT);
    EXPECT_EQ(status.message(), "agent 'target': it is gone: nobody listens on its socket");
}

TEST(Identity, AProcessThatHasEnded) {
    TargetProcess target(kBytes);
    const pid_t pid = target.child().pid();
    target.child().signal(SIGKILL);
    target.child().wait();
    const Status status = reach(target.card());
    EXPECT_EQ(status.code(), NIXL_ERR_REMOTE_DISCONNECT);
    EXPECT_EQ(status.message(), concat("agent 'target': it is gone: process ", pid, " has ended"));
}

TEST(Identity, AnotherHost) {
    TargetProcess target(kBytes);
    ConnectionInfo info = infoOf(target.card());
    info.hints.bootId[0] = info.hints.bootId[0] == 'a' ? 'b' : 'a';
    const Status status = reach(withInfo(target.card(), info));
    EXPECT_EQ(status.code(), NIXL_ERR_BACKEND);
    EXPECT_EQ(status.message(), "agent 'target': it is on another host (or the host was started anew)");
}

TEST(Identity, AnotherNetworkNamespace) {
    if (!isRoot())
        GTEST_SKIP() << "needs root to make a namespace";
    TargetProcess target(kBytes, {}, [] {
        if (unshare(CLONE_NEWNET) != 0)
            _exit(73);
    });
    const Status status = reach(target.card());
    EXPECT_EQ(status.code(), NIXL_ERR_BACKEND);
    EXPECT_EQ(status.message(), "agent 'target': it is in another network namespace (container), or gone");
}

TEST(Identity, AnotherPidNamespace) {
    if (!isRoot())
        GTEST_SKIP() << "needs root to make a namespace";
    TargetProcess target(kBytes);
    ChildProcess parent([&](Line &line) {
        if (unshare(CLONE_NEWPID) != 0)
            _exit(73);
        ChildProcess initiator([&](Line &inner) {
            Node node("initiator", kBytes);
            const Status status = node.pathTo(node.load("target", target.card()));
            inner.send(concat(status.code(), " ", status.message()));
        });
        line.send(initiator.line().receive());
    });
    EXPECT_EQ(parent.line().receive(),
              concat(NIXL_ERR_BACKEND,
                     " agent 'target': it is in another pid namespace (container), where its "
                     "process cannot be seen from this one"));
}

TEST(Identity, AVisiblePidNamespaceBelowIsRefusedByTheTarget) {
    if (!isRoot())
        GTEST_SKIP() << "needs root to make a namespace";
    ChildProcess parent([&](Line &line) {
        if (unshare(CLONE_NEWPID) != 0)
            _exit(73);
        TargetProcess target(kBytes);
        line.send(target.card());
        line.receive();
    });
    const Status status = reach(parent.line().receive());
    EXPECT_EQ(status.code(), NIXL_ERR_BACKEND);
    EXPECT_NE(status.message().find("refuses: your process is in another pid namespace"), std::string::npos)
        << status.message();
}

TEST(Identity, AStoppedTargetDoesNotHoldUs) {
    Options options;
    options.localConnectTimeout = 200ms;
    TargetProcess target(kBytes);
    target.child().stop();
    const auto start = std::chrono::steady_clock::now();
    const Status status = reach(target.card(), "target", options);
    EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
    EXPECT_EQ(status.code(), NIXL_ERR_BACKEND);
    EXPECT_EQ(status.message(), concat("agent 'target': process ", target.child().pid(), " is stopped"));
}

TEST(Identity, ATargetThatGoesOnIsReachedLater) {
    Options options;
    options.localConnectTimeout = 100ms;
    TargetProcess target(kBytes);
    Node node("initiator", kBytes, options);
    Node::Remote &remote = node.load("target", target.card());
    target.child().stop();
    EXPECT_FALSE(node.pathTo(remote).ok());
    target.child().signal(SIGCONT);
    EXPECT_TRUE(eventually([&] { return node.pathTo(remote).ok(); }));
}

TEST(Identity, SwitchedOff) {
    EngineConfig config;
    Options options;
    options.local = false;
    config.options = std::make_shared<Options>(options);
    const auto made = makeLocalEngineFactory()->create(config);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), NIXL_ERR_BACKEND);
    EXPECT_EQ(made.status().message(), "switched off by NIXL_LOCAL");
}

TEST(Identity, ItTellsWhereThePeerIs) {
    TargetProcess target(kBytes);
    Node node("initiator", kBytes), neighbour("neighbour", kBytes);
    const auto meet = [&](Node::Remote &remote) { return node.engine().meet(*remote.peer); };
    const auto laneTo = [&](Peer *peer) {
        const auto path = node.engine().path(NIXL_READ, DRAM_SEG, DRAM_SEG, peer);
        EXPECT_TRUE(path.ok());
        return path.value().hostLane;
    };
    Node::Remote &far = node.load("target", target.card());
    ASSERT_TRUE(meet(far).ok()) << meet(far).status().message();
    EXPECT_EQ(meet(far).value(), HostLane::kHostMemory);
    EXPECT_EQ(laneTo(far.peer.get()), HostLane::kHostMemory);
    Node::Remote &near = node.load("neighbour", neighbour.card());
    ASSERT_TRUE(meet(near).ok());
    EXPECT_EQ(meet(near).value(), HostLane::kSameProcess);
    EXPECT_EQ(laneTo(near.peer.get()), HostLane::kSameProcess);
    EXPECT_EQ(laneTo(nullptr), HostLane::kSameProcess);
    target.child().signal(SIGKILL);
    target.child().wait();
    EXPECT_EQ(meet(far).status().code(), NIXL_ERR_REMOTE_DISCONNECT);
}

TEST(Identity, OnlyHostMemory) {
    Node node("initiator", kBytes);
    for (const nixl_mem_t memory : {VRAM_SEG, BLK_SEG, OBJ_SEG, FILE_SEG}) {
        const auto region = node.engine().registerRegion(nixlBlobDesc(0x1000, 64, 0), memory);
        ASSERT_FALSE(region.ok());
        EXPECT_EQ(region.status().code(), NIXL_ERR_NOT_SUPPORTED);
        EXPECT_NE(region.status().message().find(nixlEnumStrings::memTypeStr(memory)), std::string::npos);
        EXPECT_EQ(node.engine().path(NIXL_READ, DRAM_SEG, memory, nullptr).status().code(),
                  NIXL_ERR_NOT_SUPPORTED);
    }
}

/// Somebody else answers on a socket of the right name: everything it sends is checked.
class ImpostorTest : public ::testing::Test {
protected:
    /// An impostor that answers the hello with a welcome that `forge` makes, and with the descriptors `forge`
    /// adds.
    Status
    meet(const std::function<std::string(const Hello &, std::vector<int> &)> &forge) {
        ConnectionInfo info;
        info.incarnation[0] = 42;
        info.incarnation[1] = static_cast<std::uint8_t>(getpid());
        info.incarnation[2] = static_cast<std::uint8_t>(getpid() >> 8);
        ChildProcess impostor([&](Line &line) {
            auto socket = listenAbstract(socketName(info.incarnation));
            line.send("listening");
            waitReady(socket.value().get(), 1 /* POLLIN */, std::chrono::steady_clock::now() + 20s);
            const int fd = accept(socket.value().get(), nullptr, nullptr);
            FrameReader reader;
            Frame frame{};
            while (!reader.next(frame).value())
                reader.readOnce(fd);
            std::vector<int> fds;
            const std::string answer = forge(decodeHello(frame.payload).value(), fds);
            sendSome(fd, std::array{std::string_view(answer)}, fds);
            line.receive();
        });
        impostor.line().receive();
        Node node("initiator", kBytes);
        auto peer = node.engine().loadPeer("target", encodeConnectionInfo(info));
        return node.engine().connect(*peer.value());
    }

    static std::string
    welcome(const Hello &hello, std::uint64_t address) {
        Welcome answer;
        answer.incarnation = hello.target;
        answer.agent = "target";
        answer.challengeAddress = address;
        return encodeWelcome(answer);
    }

    /// Descriptors as an honest target sends them.
    static void
    honestFds(std::vector<int> &fds) {
        static auto table = RegionTable::create();
        static auto life = LifePage::create();
        std::thread([] {
            (void)life.value()->adopt();
            pause();
        }).detach();
        fds = {table.value().fd(), life.value()->fd()};
        while (!LifeView::map(fds[1]).ok())
            std::this_thread::yield();
    }
};

TEST_F(ImpostorTest, HonestAnswersAreTaken) {
    static Challenge kept;
    const Status status = meet([](const Hello &hello, std::vector<int> &fds) {
        honestFds(fds);
        kept = hello.challenge;
        return welcome(hello, reinterpret_cast<std::uint64_t>(&kept));
    });
    EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(ImpostorTest, AnotherChallenge) {
    static Challenge kept;
    const Status status = meet([](const Hello &hello, std::vector<int> &fds) {
        honestFds(fds);
        kept = hello.challenge;
        kept[31] ^= 1;
        return welcome(hello, reinterpret_cast<std::uint64_t>(&kept));
    });
    EXPECT_EQ(status.code(), NIXL_ERR_MISMATCH);
    EXPECT_NE(status.message().find("holds other bytes than the challenge"), std::string::npos)
        << status.message();
}

TEST_F(ImpostorTest, ChallengeAtNoAddress) {
    const Status status = meet([](const Hello &hello, std::vector<int> &fds) {
        honestFds(fds);
        return welcome(hello, 16);
    });
    EXPECT_EQ(status.code(), NIXL_ERR_MISMATCH);
    EXPECT_NE(status.message().find("does not hold the challenge where it says"), std::string::npos)
        << status.message();
}

TEST_F(ImpostorTest, MemoryThatIsNotSealed) {
    const Status status = meet([](const Hello &hello, std::vector<int> &fds) {
        honestFds(fds);
        fds[0] = memfd_create("loose", MFD_ALLOW_SEALING);
        if (ftruncate(fds[0], sizeof(TableLayout)) != 0)
            _exit(74);
        return welcome(hello, 16);
    });
    EXPECT_NE(status.message().find("is not sealed to its size"), std::string::npos) << status.message();
}

TEST_F(ImpostorTest, MemoryOfAnotherSize) {
    const Status status = meet([](const Hello &hello, std::vector<int> &fds) {
        honestFds(fds);
        std::swap(fds[0], fds[1]);
        return welcome(hello, 16);
    });
    EXPECT_NE(status.message().find("has 4096 bytes, not "), std::string::npos) << status.message();
}

TEST_F(ImpostorTest, DescriptorsOfOtherThings) {
    const Status status = meet([](const Hello &hello, std::vector<int> &fds) {
        fds = {0, 0};
        return welcome(hello, 16);
    });
    EXPECT_NE(status.message().find("is not a memfd"), std::string::npos) << status.message();
    const Status none = meet([](const Hello &hello, std::vector<int> &) { return welcome(hello, 16); });
    EXPECT_NE(none.message().find("gave 0 descriptors instead of 2"), std::string::npos) << none.message();
}

TEST_F(ImpostorTest, AnswersThatAreNoFrames) {
    EXPECT_NE(meet([](const Hello &, std::vector<int> &) { return std::string(100, 'x'); })
                  .message()
                  .find("no frame"),
              std::string::npos);
    const Status huge = meet([](const Hello &, std::vector<int> &) {
        return frameHeader(FrameType::kWelcome, ~std::uint64_t{0});
    });
    EXPECT_NE(huge.message().find("a frame of 18446744073709551615 bytes; at most "), std::string::npos)
        << huge.message();
    const Status type =
        meet([](const Hello &, std::vector<int> &) { return frameHeader(FrameType::kReady, 0); });
    EXPECT_NE(type.message().find("answers with a frame of type 3"), std::string::npos) << type.message();
    const Status cut = meet([](const Hello &hello, std::vector<int> &) {
        std::string bytes = welcome(hello, 16);
        return bytes.substr(0, kHeaderBytes - 8) + std::string(1, 5) + std::string(7, '\0') + "12345";
    });
    EXPECT_NE(cut.message().find("malformed welcome of 5 bytes"), std::string::npos) << cut.message();
}

TEST_F(ImpostorTest, AnotherIncarnation) {
    const Status status = meet([](Hello hello, std::vector<int> &fds) {
        honestFds(fds);
        hello.target[0] ^= 1;
        return welcome(hello, 16);
    });
    EXPECT_EQ(status.code(), NIXL_ERR_MISMATCH);
    EXPECT_EQ(status.message(), "agent 'target': another incarnation answers on its socket");
}

TEST_F(ImpostorTest, ItRefuses) {
    const Status status = meet([](const Hello &, std::vector<int> &) { return encodeRefuse("no wish to"); });
    EXPECT_EQ(status.code(), NIXL_ERR_BACKEND);
    EXPECT_NE(status.message().find("refuses: no wish to"), std::string::npos) << status.message();
}

} // namespace

} // namespace nixl::local
