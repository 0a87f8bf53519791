#include "agent/prepared_list.h"

#include <optional>
#include <unordered_map>

#include "util/concat.h"

namespace nixl {

namespace {

using Regions = std::vector<std::shared_ptr<RegionEntry>>;

/// Looks blocks up in one section and numbers the registrations it meets.
template<typename EntryPtr> class Resolver {
public:
    Resolver(const CoveringIndex<EntryPtr> &index, Regions &regions) : index_(index), regions_(regions) {}

    /// The registration of a block; nullptr if there is none. Valid until the next call.
    const Covering *
    operator()(const nixlBasicDesc &block) {
        // Lists run through a region for long stretches.
        return last_.range.covers(block) ? &last_ : lookUp(block);
    }

private:
    const Covering *
    lookUp(const nixlBasicDesc &block) {
        const EntryPtr *entry = index_.cover(block);
        if (!entry)
            return nullptr;
        const auto [number, fresh] =
            numbers_.try_emplace(entry->get(), static_cast<std::uint32_t>(regions_.size()));
        if (fresh)
            regions_.push_back(*entry);
        last_ = {number->second, (*entry)->desc};
        return &last_;
    }

    const CoveringIndex<EntryPtr> &index_;
    Regions &regions_;
    Covering last_{0, nixlBasicDesc(0, 0, 0)}; // covers nothing that is not empty
    std::unordered_map<const RegionEntry *, std::uint32_t> numbers_;
};

Status
notCovered(std::size_t number, nixl_mem_t memory, const nixlBasicDesc &block, const EnginePtr &engine,
           const std::string &whose) {
    return Status::error(
        NIXL_ERR_NOT_FOUND, "block ", number, ", ", describe(memory, block),
        block.len == 0 ? ": the length is zero"
                       : concat(": lies in no memory that ", whose, " registered with ", engine->name()));
}

bool
wraps(const nixlStrideDesc &row) {
    std::size_t span = 0, last = 0;
    return __builtin_mul_overflow(row.stride, row.count - 1, &span) ||
           __builtin_add_overflow(span, row.len - 1, &span) || __builtin_add_overflow(row.addr, span, &last);
}

template<typename EntryPtr>
Status
resolveBlocks(const BlockInput &input, Resolver<EntryPtr> &resolver, BlockList &out, const EnginePtr &engine,
              const std::string &whose) {
    for (std::size_t i = 0; i < input.blocks.size();) {
        const nixlBasicDesc &block = input.blocks[i];
        if (block.len == 0)
            return notCovered(i, input.memory, block, engine, whose);
        if (mayBeginRun(input.blocks, i)) {
            const std::size_t run = runLength(input.blocks, i);
            if (run >= kShortestRun) {
                const std::uint64_t done =
                    appendRun(out, block, input.blocks[i + 1].addr - block.addr, run, resolver);
                if (done < run)
                    return notCovered(i + done, input.memory, input.blocks[i + done], engine, whose);
                i += run;
                continue;
            }
        }
        const Covering *hit = resolver(block);
        if (!hit)
            return notCovered(i, input.memory, block, engine, whose);
        if (out.size() == 0)
            out.expectBlocks(input.blocks.size());
        out.append(block.addr, block.len, hit->region);
        ++i;
    }
    return {};
}

template<typename EntryPtr>
Status
resolveRows(const BlockInput &input, Resolver<EntryPtr> &resolver, BlockList &out, const EnginePtr &engine,
            const std::string &whose) {
    for (std::size_t i = 0; i < input.rows.size(); ++i) {
        const nixlStrideDesc &row = input.rows[i];
        const auto refuse = [&](const auto &...why) {
            return Status::error(NIXL_ERR_NOT_FOUND, "row ", i, ", ", describe(input.memory, row),
                                 ", stride ", row.stride, ", count ", row.count, ": ", why...);
        };
        if (row.len == 0 || row.count == 0)
            return refuse("length and count must not be zero");
        if (row.stride < row.len)
            return refuse("the stride is smaller than the length");
        if (wraps(row))
            return refuse("the addresses wrap");
        if (!out.hasRoomFor(row.count))
            return refuse("the rows have more pieces than can be numbered");
        const std::uint64_t done = appendRun(out, row, row.stride, row.count, resolver);
        if (done < row.count)
            return refuse("piece ", done, " lies in no memory that ", whose, " registered with ",
                          engine->name());
    }
    return {};
}

/// The registrations that cover `known`, one by one; nothing if one is not covered.
template<typename EntryPtr>
std::optional<Regions>
coverRegions(const Regions &known, const CoveringIndex<EntryPtr> &index) {
    Regions regions;
    regions.reserve(known.size());
    for (const auto &region : known) {
        const EntryPtr *entry = index.cover(region->desc);
        if (!entry)
            return std::nullopt;
        regions.push_back(*entry);
    }
    return regions;
}

template<typename EntryPtr>
Result<ResolvedList>
resolveIn(const BlockInput &input, const CoveringIndex<EntryPtr> &index, const EnginePtr &engine,
          const ResolvedList *known, const std::string &whose) {
    if (input.empty())
        return Status::error(NIXL_ERR_NOT_FOUND, "the list is empty");
    if (known) {
        if (auto regions = coverRegions(known->regions, index))
            return ResolvedList{engine, known->blocks, std::move(*regions)};
    }
    auto blocks = std::make_shared<BlockList>();
    ResolvedList out{engine, blocks, {}};
    Resolver<EntryPtr> resolver(index, out.regions);
    const Status status = input.rows.empty() ? resolveBlocks(input, resolver, *blocks, engine, whose)
                                             : resolveRows(input, resolver, *blocks, engine, whose);
    if (!status.ok())
        return status;
    return out;
}

} // namespace

Result<ResolvedList>
resolve(const BlockInput &input, const LocalMemory &memory, const EnginePtr &engine,
        const ResolvedList *known) {
    return memory.withSection(engine.get(), input.memory, [&](const CoveringIndex<LocalEntryPtr> &index) {
        return resolveIn(input, index, engine, known, "this agent");
    });
}

Result<ResolvedList>
resolve(const BlockInput &input, const Peers &peers, const PeerState &peer, const EnginePtr &engine,
        const ResolvedList *known) {
    return peers.withSection(peer, engine.get(), input.memory,
                             [&](const CoveringIndex<RemoteEntryPtr> &index) {
                                 return resolveIn(input, index, engine, known, concat("'", peer.name, "'"));
                             });
}

} // namespace nixl
