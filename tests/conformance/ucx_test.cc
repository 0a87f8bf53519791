// UCX over each kind of lane that can be had without RDMA hardware.
#include "conformance/engine_suite.h"
#include "engines/ucx/entry.h"

namespace nixl::conformance {

namespace {

// ThreadSanitizer's wrapper of process_vm_readv takes the peer's addresses for its own.
#if defined(__SANITIZE_THREAD__)
#define NIXL_SHARED_MEMORY "posix,sysv,self"
#else
#define NIXL_SHARED_MEMORY "posix,sysv,cma,self"
#endif

EngineTraits
ucxTraits(const std::string &name, const nixl_b_params_t &params) {
    EngineTraits traits;
    traits.name = name;
    traits.makeFactory = makeUcxEngineFactory;
    traits.params = params;
    traits.otherProcess = true;
    traits.checksTargets = false; // lanes without hardware emulate puts and gets, and check nothing
    return traits;
}

EngineTraits
tcpTraits() {
    return ucxTraits("UCX_tcp", {{"engine_config", "TLS=tcp,NET_DEVICES=lo"}});
}

/// Shared memory of which UCX notices that the peer is gone, by asking.
EngineTraits
sharedMemoryTraits() {
    EngineTraits traits =
        ucxTraits("UCX_shm", {{"engine_config", "TLS=tcp," NIXL_SHARED_MEMORY ",NET_DEVICES=lo,"
                                                "POSIX_ERROR_HANDLING=y,SYSV_ERROR_HANDLING=y,"
                                                "KEEPALIVE_INTERVAL=1s"}});
    traits.noticesEnds = NoticesEnds::kOfProcesses;
    return traits;
}

/// As with RDMA hardware, memory is reached without the peer's library.
EngineTraits
directTraits() {
    EngineTraits traits = ucxTraits(
        "UCX_direct", {{"ucx_error_handling_mode", "none"}, {"engine_config", "TLS=" NIXL_SHARED_MEMORY}});
    traits.noticesEnds = NoticesEnds::kNever;
    return traits;
}

EngineTraits
threadsTraits() {
    return ucxTraits(
        "UCX_threads",
        {{"num_threads", "3"}, {"split_batch_size", "100"}, {"engine_config", "TLS=tcp,NET_DEVICES=lo"}});
}

} // namespace

} // namespace nixl::conformance

NIXL_INSTANTIATE_ENGINE_SUITE(UcxTcp, tcpTraits());
NIXL_INSTANTIATE_ENGINE_SUITE(UcxSharedMemory, sharedMemoryTraits());
NIXL_INSTANTIATE_ENGINE_SUITE(UcxDirect, directTraits());
NIXL_INSTANTIATE_ENGINE_SUITE(UcxThreads, threadsTraits());
