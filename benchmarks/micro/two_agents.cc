#include "two_agents.h"

#include <nixl_ext.h>

#include <numeric>
#include <stdexcept>

namespace nixl::bench {
namespace {

void
check(nixl_status_t status, const char *call) {
    if (status < 0)
        throw std::runtime_error(std::string(call) + ": " + nixl_last_error());
}

void
registerMemory(nixlAgent &agent, std::vector<std::byte> &memory) {
    nixl_reg_dlist_t regions(DRAM_SEG);
    regions.addDesc({reinterpret_cast<std::uintptr_t>(memory.data()), memory.size(), 0});
    check(agent.registerMem(regions), "registerMem");
}

} // namespace

void
fail(benchmark::State &state, const char *call) {
    const std::string text = std::string(call) + ": " + nixl_last_error();
    state.SkipWithError(text.c_str());
}

Agent::Agent(const std::string &name) : agent_(name, nixlAgentConfig()) {
    nixlBackendH *backend = nullptr;
    check(agent_.createBackend("LOCAL", {}, backend), "createBackend");
}

TwoAgents::TwoAgents(std::size_t count)
    : initiatorMemory_(count * 2 * kBlockBytes), targetMemory_(count * 2 * kBlockBytes), indices_(count),
      initiator_("initiator"), target_("target") {
    std::iota(indices_.begin(), indices_.end(), 0);
    registerMemory(initiator(), initiatorMemory_);
    registerMemory(target(), targetMemory_);
    nixl_blob_t metadata;
    check(target().getLocalMD(metadata), "getLocalMD");
    check(initiator().loadRemoteMD(metadata, peer_), "loadRemoteMD");
    const auto base = reinterpret_cast<std::uintptr_t>(initiatorMemory_.data());
    check(initiator().prepXferDlist(NIXL_INIT_AGENT, list(base), local_), "prepXferDlist");
    check(initiator().prepXferDlist(peer_, list(targetMemory()), remote_), "prepXferDlist");
}

TwoAgents::~TwoAgents() {
    initiator().releasedDlistH(local_);
    initiator().releasedDlistH(remote_);
}

nixl_xfer_dlist_t
TwoAgents::list(std::uintptr_t base) const {
    nixl_xfer_dlist_t blocks(DRAM_SEG);
    for (std::size_t i = 0; i < count(); ++i)
        blocks.addDesc({base + i * 2 * kBlockBytes, kBlockBytes, 0});
    return blocks;
}

nixlXferReqH *
TwoAgents::make(const std::vector<int> &indices) {
    nixlXferReqH *request = nullptr;
    initiator().makeXferReq(NIXL_WRITE, local_, indices, remote_, indices, request);
    return request;
}

} // namespace nixl::bench
