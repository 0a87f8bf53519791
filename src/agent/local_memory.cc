#include "agent/local_memory.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "util/log.h"
#include "util/random.h"

namespace nixl {

namespace {

constexpr std::size_t kUnbounded = std::numeric_limits<std::size_t>::max();

bool
isMemory(nixl_mem_t memory) {
    return memory == DRAM_SEG || memory == VRAM_SEG;
}

/// Equal ranges of a list with their number, in the order of first appearance.
std::vector<std::pair<nixlBasicDesc, std::size_t>>
countRanges(const nixl_reg_dlist_t &descs) {
    std::vector<std::pair<nixlBasicDesc, std::size_t>> counted;
    std::map<nixlBasicDesc, std::size_t> positions;
    for (const nixlBlobDesc &desc : descs) {
        const nixlBasicDesc range = normalized(descs.getType(), desc);
        const auto [position, fresh] = positions.emplace(range, counted.size());
        if (fresh)
            counted.emplace_back(range, 1);
        else
            ++counted[position->second].second;
    }
    return counted;
}

Result<LocalEntryPtr>
registerOne(const EnginePtr &engine, nixl_mem_t memory, const nixlBlobDesc &desc, std::uint64_t key) {
    const nixlBlobDesc range(normalized(memory, desc), desc.metaInfo);
    auto region = engine->impl().registerRegion(range, memory);
    if (!region.ok())
        return region.status();
    auto entry = std::make_shared<LocalEntry>(range, memory, engine);
    entry->region = std::move(region).value();
    entry->key = key;
    Status failure;
    if (engine->capabilities().local) {
        auto loopback = engine->impl().loopbackRegion(*entry->region, range, memory);
        if (loopback.ok())
            entry->loopback = std::move(loopback).value();
        else
            failure = loopback.status();
    }
    if (failure.ok() && engine->capabilities().remote) {
        auto data = engine->impl().publicData(*entry->region);
        if (data.ok())
            entry->publicData = std::move(data).value();
        else
            failure = data.status();
    }
    if (failure.ok())
        return entry;
    entry->loopback.reset();
    (void)engine->impl().deregisterRegion(*entry->region);
    return failure;
}

} // namespace

nixlBasicDesc
normalized(nixl_mem_t memory, const nixlBasicDesc &desc) {
    nixlBasicDesc range = desc;
    if (range.len == 0 && !isMemory(memory))
        range.len = kUnbounded;
    return range;
}

Status
checkRanges(const nixl_reg_dlist_t &descs) {
    const nixl_mem_t memory = descs.getType();
    for (int i = 0; i < descs.descCount(); ++i) {
        const nixlBasicDesc range = normalized(memory, descs[i]);
        if (range.len == 0)
            return Status::error(NIXL_ERR_INVALID_PARAM, "descriptor ", i, ", ", describe(memory, range),
                                 ": the length is zero");
        if (range.len != kUnbounded && range.addr > kUnbounded - (range.len - 1))
            return Status::error(NIXL_ERR_INVALID_PARAM, "descriptor ", i, ", ", describe(memory, range),
                                 ": address + length wraps");
        if (range.len == kUnbounded && isMemory(memory))
            return Status::error(NIXL_ERR_INVALID_PARAM, "descriptor ", i, ", ", describe(memory, range),
                                 ": the length is larger than any memory");
    }
    return {};
}

const LocalMemory::Section *
LocalMemory::find(const EngineSlot *engine, nixl_mem_t memory) const {
    for (const auto &section : sections_) {
        if (section->engine.get() == engine && section->memory == memory)
            return section.get();
    }
    return nullptr;
}

Status
LocalMemory::add(const EnginePtr &engine, const nixl_reg_dlist_t &descs) {
    const auto count = static_cast<std::size_t>(descs.descCount());
    std::vector<LocalEntryPtr> entries;
    entries.reserve(count);
    RandomKeys keys(count);
    for (int i = 0; i < descs.descCount(); ++i) {
        auto entry = registerOne(engine, descs.getType(), descs[i], keys.next());
        if (entry.ok()) {
            entries.push_back(std::move(entry).value());
            continue;
        }
        for (const LocalEntryPtr &done : entries) {
            done->loopback.reset();
            (void)engine->impl().deregisterRegion(*done->region);
        }
        return entry.status().withContext(
            concat(engine->name(), " refuses descriptor ", i, ", ", describe(descs.getType(), descs[i])));
    }
    WriteLock lock(mutex_);
    auto *section = const_cast<Section *>(find(engine.get(), descs.getType()));
    if (!section) {
        sections_.push_back(std::make_unique<Section>(Section{engine, descs.getType(), {}, {}}));
        section = sections_.back().get();
    }
    for (const LocalEntryPtr &entry : entries)
        entry->age = section->index.insert(entry->desc, entry);
    ++epoch_;
    return {};
}

std::size_t
LocalMemory::countOf(const Section &section, const nixlBasicDesc &range) const {
    const auto closing =
        std::count_if(section.closing.begin(), section.closing.end(),
                      [&](const LocalEntryPtr &entry) { return entry->desc == range && !entry->ending; });
    return section.index.exact(range).size() + static_cast<std::size_t>(closing);
}

/// Closes up to `count` registrations of `range`, those that failed to end before first, then the youngest,
/// since peers were told of the oldest.
void
LocalMemory::take(Section &section, std::size_t closingBefore, const nixlBasicDesc &range, std::size_t count,
                  std::vector<LocalEntryPtr> &out) {
    std::size_t taken = 0;
    for (std::size_t i = 0; i < closingBefore && taken < count; ++i) {
        const LocalEntryPtr &entry = section.closing[i];
        if (entry->desc == range && !entry->ending) {
            entry->ending = true;
            out.push_back(entry);
            ++taken;
        }
    }
    auto exact = section.index.exact(range);
    for (; taken < count && !exact.empty(); ++taken, exact.pop_back()) {
        const LocalEntryPtr &entry = exact.back().second;
        section.index.erase(range, entry->age);
        section.closing.push_back(entry);
        entry->live.store(false);
        entry->ending = true;
        out.push_back(entry);
    }
}

Status
LocalMemory::checkRegistered(const std::vector<Section *> &sections,
                             const std::vector<std::pair<nixlBasicDesc, std::size_t>> &ranges) const {
    for (const auto &[range, count] : ranges) {
        std::size_t most = 0;
        for (const Section *section : sections)
            most = std::max(most, countOf(*section, range));
        if (most < count)
            return Status::error(NIXL_ERR_NOT_FOUND, describe(sections.front()->memory, range),
                                 " is registered ", most, " times and named ", count,
                                 " times; nothing was deregistered");
    }
    return {};
}

Status
LocalMemory::remove(const std::vector<EngineList> &groups, const nixl_reg_dlist_t &descs,
                    const std::function<Status(const LocalEntryPtr &)> &quiesce) {
    const nixl_mem_t memory = descs.getType();
    const auto ranges = countRanges(descs);
    std::vector<LocalEntryPtr> entries;
    {
        WriteLock lock(mutex_);
        std::vector<Section *> sections;
        for (const EngineList &group : groups) {
            std::vector<Section *> ofGroup;
            for (const EnginePtr &engine : group) {
                if (const Section *section = find(engine.get(), memory))
                    ofGroup.push_back(const_cast<Section *>(section));
            }
            if (ofGroup.empty())
                return Status::error(NIXL_ERR_NOT_FOUND, "no ", nixlEnumStrings::memTypeStr(memory),
                                     " is registered", group.empty() ? "" : " with " + group.front()->name());
            NIXL_RETURN_IF_ERROR(checkRegistered(ofGroup, ranges));
            sections.insert(sections.end(), ofGroup.begin(), ofGroup.end());
        }
        for (Section *section : sections) {
            const std::size_t closingBefore = section->closing.size();
            for (const auto &[range, count] : ranges)
                take(*section, closingBefore, range, count, entries);
        }
        ++epoch_;
    }
    return finish(entries, quiesce);
}

Status
LocalMemory::removeAll(const std::function<Status(const LocalEntryPtr &)> &quiesce) {
    std::vector<LocalEntryPtr> entries;
    {
        WriteLock lock(mutex_);
        for (const auto &section : sections_) {
            std::vector<LocalEntryPtr> live;
            section->index.forEach([&](const LocalEntryPtr &entry) { live.push_back(entry); });
            for (const LocalEntryPtr &entry : live) {
                section->index.erase(entry->desc, entry->age);
                section->closing.push_back(entry);
                entry->live.store(false);
            }
            for (const LocalEntryPtr &entry : section->closing) {
                if (!std::exchange(entry->ending, true))
                    entries.push_back(entry);
            }
        }
        ++epoch_;
    }
    return finish(entries, quiesce);
}

/// Ends closed registrations: first what uses them, then the engine's part. Without the lock, since both may
/// wait.
Status
LocalMemory::finish(const std::vector<LocalEntryPtr> &entries,
                    const std::function<Status(const LocalEntryPtr &)> &quiesce) {
    Status first;
    std::vector<const LocalEntry *> ended;
    for (const LocalEntryPtr &entry : entries) {
        Status status;
        if (entry->running.load() > 0)
            status = quiesce(entry);
        if (status.ok())
            status = entry->engine->impl().deregisterRegion(*entry->region);
        if (status.ok())
            ended.push_back(entry.get());
        else if (first.ok())
            first = status.withContext(
                concat(entry->engine->name(), " cannot end ", describe(entry->memory, entry->desc)));
    }
    std::sort(ended.begin(), ended.end());
    WriteLock lock(mutex_);
    for (const LocalEntryPtr &entry : entries)
        entry->ending = false;
    for (const auto &section : sections_) {
        auto &closing = section->closing;
        closing.erase(std::remove_if(closing.begin(), closing.end(),
                                     [&](const LocalEntryPtr &entry) {
                                         return std::binary_search(ended.begin(), ended.end(), entry.get());
                                     }),
                      closing.end());
    }
    return first;
}

EngineList
LocalMemory::enginesWith(nixl_mem_t memory) const {
    EngineList engines;
    ReadLock lock(mutex_);
    for (const auto &section : sections_) {
        if (section->memory == memory)
            engines.push_back(section->engine);
    }
    return engines;
}

std::uint64_t
LocalMemory::epoch() const {
    ReadLock lock(mutex_);
    return epoch_;
}

std::pair<std::vector<LocalSection>, std::uint64_t>
LocalMemory::snapshot() const {
    std::vector<LocalSection> sections;
    ReadLock lock(mutex_);
    for (const auto &section : sections_) {
        if (!section->engine->capabilities().remote || section->index.size() == 0)
            continue;
        LocalSection copy{section->engine, section->memory, {}};
        section->index.forEach([&](const LocalEntryPtr &entry) {
            if (copy.entries.empty() || copy.entries.back()->desc != entry->desc)
                copy.entries.push_back(entry);
        });
        sections.push_back(std::move(copy));
    }
    return {std::move(sections), epoch_};
}

Result<std::pair<std::vector<LocalSection>, std::uint64_t>>
LocalMemory::snapshot(const EngineList &candidates, const nixl_reg_dlist_t &descs) const {
    std::vector<LocalSection> sections;
    std::string missing;
    std::vector<nixlBasicDesc> ranges;
    for (const auto &counted : countRanges(descs))
        ranges.push_back(counted.first);
    std::sort(ranges.begin(), ranges.end());
    ReadLock lock(mutex_);
    for (const EnginePtr &engine : candidates) {
        const Section *section = find(engine.get(), descs.getType());
        LocalSection copy{engine, descs.getType(), {}};
        for (const nixlBasicDesc &range : ranges) {
            const auto exact =
                section ? section->index.exact(range) : decltype(section->index.exact(range)){};
            if (exact.empty()) {
                missing =
                    concat(describe(descs.getType(), range), " is not registered with ", engine->name());
                break;
            }
            copy.entries.push_back(exact.front().second);
        }
        if (copy.entries.size() == ranges.size())
            sections.push_back(std::move(copy));
    }
    if (sections.empty())
        return Status(NIXL_ERR_NOT_FOUND, missing);
    return std::make_pair(std::move(sections), epoch_);
}

} // namespace nixl
