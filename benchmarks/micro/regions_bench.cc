// What registrations cost: finding the one that covers a block, and telling a peer about thousands.
#include <benchmark/benchmark.h>
#include <nixl.h>

#include <random>
#include <string>
#include <vector>

#include "memory/covering_index.h"
#include "two_agents.h"

namespace {

using nixl::bench::Agent;
using nixl::bench::fail;

constexpr std::size_t kRegionBytes = 4096;

/// Regions that lie side by side, asked in a random order.
void
coveringIndex(benchmark::State &state) {
    const auto count = static_cast<std::size_t>(state.range(0));
    nixl::CoveringIndex<int> index;
    std::vector<nixlBasicDesc> queries;
    std::mt19937 random(1);
    for (std::size_t i = 0; i < count; ++i) {
        index.insert({(i + 1) * kRegionBytes, kRegionBytes, 0}, static_cast<int>(i));
        queries.emplace_back((random() % count + 1) * kRegionBytes + 64, 128, 0);
    }
    std::size_t next = 0;
    for (auto _ : state) {
        benchmark::DoNotOptimize(index.cover(queries[next]));
        next = next + 1 == count ? 0 : next + 1;
    }
}

nixl_reg_dlist_t
pieces(std::vector<std::byte> &memory, std::size_t count) {
    nixl_reg_dlist_t regions(DRAM_SEG);
    for (std::size_t i = 0; i < count; ++i)
        regions.addDesc(
            {reinterpret_cast<std::uintptr_t>(memory.data()) + i * kRegionBytes, kRegionBytes, 0});
    return regions;
}

void
registerAndDeregister(benchmark::State &state) {
    const auto count = static_cast<std::size_t>(state.range(0));
    std::vector<std::byte> memory(count * kRegionBytes);
    const nixl_reg_dlist_t regions = pieces(memory, count);
    Agent owner("owner");
    for (auto _ : state)
        if (owner.agent().registerMem(regions) != NIXL_SUCCESS ||
            owner.agent().deregisterMem(regions) != NIXL_SUCCESS)
            return fail(state, "registerMem, deregisterMem");
    state.SetItemsProcessed(state.iterations() * state.range(0));
}

void
encodeMetadata(benchmark::State &state) {
    const auto count = static_cast<std::size_t>(state.range(0));
    std::vector<std::byte> memory(count * kRegionBytes);
    Agent owner("owner");
    if (owner.agent().registerMem(pieces(memory, count)) != NIXL_SUCCESS)
        return fail(state, "registerMem");
    for (auto _ : state) {
        nixl_blob_t metadata;
        if (owner.agent().getLocalMD(metadata) != NIXL_SUCCESS)
            return fail(state, "getLocalMD");
        state.counters["bytes"] = static_cast<double>(metadata.size());
    }
}

void
loadMetadata(benchmark::State &state) {
    const auto count = static_cast<std::size_t>(state.range(0));
    std::vector<std::byte> memory(count * kRegionBytes);
    Agent owner("owner"), reader("reader");
    nixl_blob_t metadata;
    if (owner.agent().registerMem(pieces(memory, count)) != NIXL_SUCCESS ||
        owner.agent().getLocalMD(metadata) != NIXL_SUCCESS)
        return fail(state, "registerMem, getLocalMD");
    std::string name;
    for (auto _ : state) {
        if (reader.agent().loadRemoteMD(metadata, name) != NIXL_SUCCESS)
            return fail(state, "loadRemoteMD");
        // Only the first loading of a peer is told anything new.
        state.PauseTiming();
        if (reader.agent().invalidateRemoteMD(name) != NIXL_SUCCESS)
            return fail(state, "invalidateRemoteMD");
        state.ResumeTiming();
    }
}

BENCHMARK(coveringIndex)->Arg(16)->Arg(4096);
BENCHMARK(registerAndDeregister)->Arg(4096);
BENCHMARK(encodeMetadata)->Arg(4096);
BENCHMARK(loadMetadata)->Arg(4096)->UseRealTime();

} // namespace
