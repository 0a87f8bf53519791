// What a program that was given the installed package can do: two agents move bytes and say what they are.
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

#include <backend/backend_plugin.h>
#include <nixl.h>
#include <nixl_descriptors.h>
#include <nixl_ext.h>
#include <utils/serdes/serdes.h>

namespace {

using Memory = std::array<unsigned char, 4096>;

template<typename List>
List
whole(const Memory &memory) {
    List list(DRAM_SEG);
    list.addDesc({reinterpret_cast<std::uintptr_t>(memory.data()), memory.size(), 0});
    return list;
}

int
fail(const char *what) {
    std::fprintf(stderr, "%s: %s\n", what, nixl_last_error());
    return 1;
}

} // namespace

int
main() {
    Memory source;
    source.fill(7);
    Memory target{};
    nixlAgent sender("sender", nixlAgentConfig(true));
    nixlAgent receiver("receiver", nixlAgentConfig(true));
    for (auto [agent, memory] : {std::pair{&sender, &source}, std::pair{&receiver, &target}}) {
        nixlBackendH *backend = nullptr;
        if (agent->createBackend("LOCAL", {}, backend) != NIXL_SUCCESS)
            return fail("createBackend");
        if (agent->registerMem(whole<nixl_reg_dlist_t>(*memory)) != NIXL_SUCCESS)
            return fail("registerMem");
    }
    std::string metadata;
    std::string name;
    if (receiver.getLocalMD(metadata) != NIXL_SUCCESS || sender.loadRemoteMD(metadata, name) != NIXL_SUCCESS)
        return fail("metadata");
    nixlXferReqH *request = nullptr;
    if (sender.createXferReq(NIXL_WRITE, whole<nixl_xfer_dlist_t>(source), whole<nixl_xfer_dlist_t>(target),
                             name, request) != NIXL_SUCCESS)
        return fail("createXferReq");
    nixl_status_t status = sender.postXferReq(request);
    while (status == NIXL_IN_PROG)
        status = sender.getXferStatus(request);
    if (status != NIXL_SUCCESS || sender.releaseXferReq(request) != NIXL_SUCCESS)
        return fail("transfer");
    if (target != source)
        return fail("the bytes differ");
    nixlSerDes envelope;
    if (envelope.addStr("from", name) != NIXL_SUCCESS)
        return fail("addStr");
    std::printf("nixl %s moved %zu bytes to %s\n", nixl_version(), target.size(), name.c_str());
    return 0;
}
