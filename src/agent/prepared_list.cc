#include "agent/prepared_list.h"

#include <optional>
#include <unordered_map>

#include "util/concat.h"

namespace nixl {

namespace {

/// Looks blocks up in one section and numbers the registrations it meets.
template<typename EntryPtr> class Resolver {
public:
    Resolver(const CoveringIndex<EntryPtr> &index, ResolvedList &out) : index_(index), out_(out) {}

    std::optional<Covering>
    operator()(const nixlBasicDesc &block) {
        // Lists run through a region for long stretches.
        if (last_ && last_->range.covers(block))
            return last_;
        const EntryPtr *entry = index_.cover(block);
        if (!entry)
            return std::nullopt;
        const auto [number, fresh] =
            numbers_.try_emplace(entry->get(), static_cast<std::uint32_t>(out_.regions.size()));
        if (fresh)
            out_.regions.push_back(*entry);
        last_ = Covering{number->second, (*entry)->desc};
        return last_;
    }

private:
    const CoveringIndex<EntryPtr> &index_;
    ResolvedList &out_;
    std::optional<Covering> last_;
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
resolveBlocks(const BlockInput &input, Resolver<EntryPtr> &resolver, ResolvedList &out,
              const std::string &whose) {
    for (std::size_t i = 0; i < input.blocks.size();) {
        const nixlBasicDesc &block = input.blocks[i];
        if (block.len == 0)
            return notCovered(i, input.memory, block, out.engine, whose);
        const std::size_t run = runLength(input.blocks, i);
        if (run >= kShortestRun) {
            const std::uint64_t done =
                appendRun(out.blocks, block, input.blocks[i + 1].addr - block.addr, run, resolver);
            if (done < run)
                return notCovered(i + done, input.memory, input.blocks[i + done], out.engine, whose);
            i += run;
            continue;
        }
        // The last block of a short run may begin the next one.
        for (const std::size_t end = i + (run > 1 ? run - 1 : 1); i < end; ++i) {
            const nixlBasicDesc &single = input.blocks[i];
            const auto hit = resolver(single);
            if (!hit)
                return notCovered(i, input.memory, single, out.engine, whose);
            out.blocks.append(single.addr, single.len, single.len, 1, hit->region);
        }
    }
    return {};
}

template<typename EntryPtr>
Status
resolveRows(const BlockInput &input, Resolver<EntryPtr> &resolver, ResolvedList &out,
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
        if (!out.blocks.hasRoomFor(row.count))
            return refuse("the rows have more pieces than can be numbered");
        const std::uint64_t done = appendRun(out.blocks, row, row.stride, row.count, resolver);
        if (done < row.count)
            return refuse("piece ", done, " lies in no memory that ", whose, " registered with ",
                          out.engine->name());
    }
    return {};
}

template<typename EntryPtr>
Result<ResolvedList>
resolveIn(const BlockInput &input, const CoveringIndex<EntryPtr> &index, const EnginePtr &engine,
          const std::string &whose) {
    ResolvedList out{engine, {}, {}};
    if (input.empty())
        return Status::error(NIXL_ERR_NOT_FOUND, "the list is empty");
    Resolver<EntryPtr> resolver(index, out);
    const Status status = input.rows.empty() ? resolveBlocks(input, resolver, out, whose)
                                             : resolveRows(input, resolver, out, whose);
    if (!status.ok())
        return status;
    return out;
}

} // namespace

Result<ResolvedList>
resolve(const BlockInput &input, const LocalMemory &memory, const EnginePtr &engine) {
    return memory.withSection(engine.get(), input.memory, [&](const CoveringIndex<LocalEntryPtr> &index) {
        return resolveIn(input, index, engine, "this agent");
    });
}

Result<ResolvedList>
resolve(const BlockInput &input, const Peers &peers, const PeerState &peer, const EnginePtr &engine) {
    return peers.withSection(peer, engine.get(), input.memory,
                             [&](const CoveringIndex<RemoteEntryPtr> &index) {
                                 return resolveIn(input, index, engine, concat("'", peer.name, "'"));
                             });
}

} // namespace nixl
