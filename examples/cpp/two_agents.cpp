// Two agents of one process: one WRITEs chosen blocks into the other's memory and READs them back.
#include <nixl.h>
#include <nixl_ext.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kBlockBytes = 16384;
constexpr std::size_t kBlocks = 64;

/// Every call returns a status; the text of the cause is kept per thread.
nixl_status_t
check(nixl_status_t status, const char *what) {
    if (status < 0)
        throw std::runtime_error(std::string(what) + ": " + nixlEnumStrings::statusStr(status) + ": " +
                                 nixl_last_error());
    return status;
}

/// Memory and an agent that has it registered. The memory outlives the agent.
struct Worker {
    std::vector<unsigned char> memory;
    nixlAgent agent;

    explicit Worker(const std::string &name) : memory(kBlocks * kBlockBytes), agent(name, nixlAgentConfig()) {
        nixlBackendH *backend = nullptr;
        check(agent.createBackend("LOCAL", {}, backend), "createBackend");
        nixl_reg_dlist_t regions(DRAM_SEG);
        regions.addDesc({address(), memory.size(), 0});
        check(agent.registerMem(regions), "registerMem");
    }

    std::uintptr_t
    address() const {
        return reinterpret_cast<std::uintptr_t>(memory.data());
    }

    /// All blocks of a worker as one strided row, resolved once for any number of requests.
    nixlDlistH *
    prepare(const std::string &owner, const Worker &worker) const {
        nixl_stride_dlist_t rows(DRAM_SEG);
        rows.addDesc({worker.address(), kBlockBytes, 0, kBlockBytes, kBlocks});
        nixlDlistH *list = nullptr;
        check(agent.prepXferDlist(owner, rows, list), "prepXferDlist");
        return list;
    }
};

void
run(const nixlAgent &agent, nixlXferReqH *request) {
    nixl_status_t status = check(agent.postXferReq(request), "postXferReq");
    while (status == NIXL_IN_PROG)
        status = check(agent.getXferStatus(request), "getXferStatus");
}

void
moveBlocks() {
    Worker prefill("prefill"), decode("decode");
    for (std::size_t i = 0; i < prefill.memory.size(); ++i)
        prefill.memory[i] = static_cast<unsigned char>(i * 7 + i / kBlockBytes);
    const std::vector<unsigned char> original = prefill.memory;

    nixl_blob_t metadata;
    std::string peer;
    check(decode.agent.getLocalMD(metadata), "getLocalMD");
    check(prefill.agent.loadRemoteMD(metadata, peer), "loadRemoteMD");
    nixlDlistH *local = prefill.prepare(NIXL_INIT_AGENT, prefill);
    nixlDlistH *remote = prefill.prepare(peer, decode);

    // Every second block, to places in the opposite order.
    std::vector<int> blocks, places;
    for (int block = 0; block < static_cast<int>(kBlocks); block += 2) {
        blocks.push_back(block);
        places.push_back(static_cast<int>(kBlocks) - 1 - block);
    }
    nixl_opt_args_t notify;
    notify.notif = "blocks are there";
    nixlXferReqH *write = nullptr, *read = nullptr;
    check(prefill.agent.makeXferReq(NIXL_WRITE, local, blocks, remote, places, write, &notify),
          "makeXferReq");
    check(prefill.agent.makeXferReq(NIXL_READ, local, blocks, remote, places, read), "makeXferReq");

    run(prefill.agent, write);
    nixl_notifs_t arrived;
    while (arrived.empty())
        check(decode.agent.getNotifs(arrived), "getNotifs");
    std::printf("notification from %s: %s\n", arrived.begin()->first.c_str(),
                arrived.begin()->second[0].c_str());
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        const auto source = original.begin() + blocks[i] * static_cast<std::ptrdiff_t>(kBlockBytes);
        const auto target = decode.memory.begin() + places[i] * static_cast<std::ptrdiff_t>(kBlockBytes);
        if (!std::equal(source, source + kBlockBytes, target))
            throw std::runtime_error("block " + std::to_string(blocks[i]) + " arrived with other bytes");
    }

    for (const int block : blocks)
        std::fill_n(prefill.memory.begin() + block * static_cast<std::ptrdiff_t>(kBlockBytes), kBlockBytes,
                    0);
    run(prefill.agent, read);
    if (prefill.memory != original)
        throw std::runtime_error("other bytes came back");

    nixlPathExplanation explanation;
    check(nixlExplain(prefill.agent, write, explanation), "nixlExplain");
    std::printf("%s\nverified\n", explanation.toString().c_str());
    check(prefill.agent.releaseXferReq(write), "releaseXferReq");
    check(prefill.agent.releaseXferReq(read), "releaseXferReq");
    check(prefill.agent.releasedDlistH(local), "releasedDlistH");
    check(prefill.agent.releasedDlistH(remote), "releasedDlistH");
}

} // namespace

int
main() {
    try {
        moveBlocks();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "two_agents: %s\n", error.what());
        return 1;
    }
    return 0;
}
