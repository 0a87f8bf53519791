// What the calls of a transfer cost between two agents of one process; the copies themselves are made tiny.
#include <benchmark/benchmark.h>
#include <nixl.h>

#include "two_agents.h"

namespace {

using nixl::bench::fail;
using nixl::bench::kBlockBytes;
using nixl::bench::TwoAgents;

void
buildDescs(benchmark::State &state) {
    const auto count = static_cast<std::size_t>(state.range(0));
    for (auto _ : state) {
        nixl_xfer_dlist_t list(DRAM_SEG);
        for (std::size_t i = 0; i < count; ++i)
            list.addDesc({0x100000 + i * 2 * kBlockBytes, kBlockBytes, 0});
        benchmark::DoNotOptimize(list);
    }
    state.SetItemsProcessed(state.iterations() * state.range(0));
}

void
prep(benchmark::State &state) {
    TwoAgents agents(static_cast<std::size_t>(state.range(0)));
    const nixl_xfer_dlist_t list = agents.list(agents.targetMemory());
    for (auto _ : state) {
        nixlDlistH *prepared = nullptr;
        if (agents.initiator().prepXferDlist(agents.peer(), list, prepared) != NIXL_SUCCESS)
            return fail(state, "prepXferDlist");
        agents.initiator().releasedDlistH(prepared);
    }
    state.SetItemsProcessed(state.iterations() * state.range(0));
}

void
prepStrided(benchmark::State &state) {
    TwoAgents agents(static_cast<std::size_t>(state.range(0)));
    nixl_stride_dlist_t rows(DRAM_SEG);
    rows.addDesc({agents.targetMemory(), kBlockBytes, 0, 2 * kBlockBytes, agents.count()});
    for (auto _ : state) {
        nixlDlistH *prepared = nullptr;
        if (agents.initiator().prepXferDlist(agents.peer(), rows, prepared) != NIXL_SUCCESS)
            return fail(state, "prepXferDlist");
        agents.initiator().releasedDlistH(prepared);
    }
}

void
make(benchmark::State &state) {
    TwoAgents agents(static_cast<std::size_t>(state.range(0)));
    for (auto _ : state) {
        nixlXferReqH *request = agents.make(agents.indices());
        if (request == nullptr)
            return fail(state, "makeXferReq");
        agents.initiator().releaseXferReq(request);
    }
    state.SetItemsProcessed(state.iterations() * state.range(0));
}

/// A request of one block, again and again: everything but the copying.
void
postToDone(benchmark::State &state) {
    TwoAgents agents(1);
    nixlXferReqH *request = agents.make(agents.indices());
    for (auto _ : state) {
        nixl_status_t status = agents.initiator().postXferReq(request);
        while (status == NIXL_IN_PROG)
            status = agents.initiator().getXferStatus(request);
        if (status != NIXL_SUCCESS)
            return fail(state, "postXferReq");
    }
    agents.initiator().releaseXferReq(request);
}

/// Only the caller's part; the wait for the end is not timed.
void
postAlone(benchmark::State &state) {
    TwoAgents agents(static_cast<std::size_t>(state.range(0)));
    nixlXferReqH *request = agents.make(agents.indices());
    for (auto _ : state) {
        nixl_status_t status = agents.initiator().postXferReq(request);
        state.PauseTiming();
        while (status == NIXL_IN_PROG)
            status = agents.initiator().getXferStatus(request);
        if (status != NIXL_SUCCESS)
            return fail(state, "postXferReq");
        state.ResumeTiming();
    }
    agents.initiator().releaseXferReq(request);
}

void
statusOfDone(benchmark::State &state) {
    TwoAgents agents(1);
    nixlXferReqH *request = agents.make(agents.indices());
    nixl_status_t status = agents.initiator().postXferReq(request);
    while (status == NIXL_IN_PROG)
        status = agents.initiator().getXferStatus(request);
    for (auto _ : state)
        benchmark::DoNotOptimize(agents.initiator().getXferStatus(request));
    agents.initiator().releaseXferReq(request);
}

void
notification(benchmark::State &state) {
    TwoAgents agents(1);
    const nixl_blob_t message(32, 'm');
    nixl_notifs_t arrived;
    for (auto _ : state) {
        if (agents.initiator().genNotif(agents.peer(), message) != NIXL_SUCCESS)
            return fail(state, "genNotif");
        for (arrived.clear(); arrived.empty();)
            if (agents.target().getNotifs(arrived) != NIXL_SUCCESS)
                return fail(state, "getNotifs");
    }
}

BENCHMARK(buildDescs)->Arg(8192);
BENCHMARK(prep)->Arg(8192);
BENCHMARK(prepStrided)->Arg(8192);
BENCHMARK(make)->Arg(8192);
BENCHMARK(postToDone)->UseRealTime();
BENCHMARK(postAlone)->Arg(1)->Arg(8192)->UseRealTime();
BENCHMARK(statusOfDone);
BENCHMARK(notification)->UseRealTime();

} // namespace
