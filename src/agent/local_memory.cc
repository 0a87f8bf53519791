#include "agent/local_memory.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <span>
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

/// The different ranges of a list in their order.
std::vector<LocalMemory::CountedRange>
countRanges(const nixl_reg_dlist_t &descs) {
    std::vector<nixlBasicDesc> ranges;
    ranges.reserve(static_cast<std::size_t>(descs.descCount()));
    for (const nixlBlobDesc &desc : descs)
        ranges.push_back(normalized(descs.getType(), desc));
    if (!std::is_sorted(ranges.begin(), ranges.end()))
        std::sort(ranges.begin(), ranges.end());
    std::vector<LocalMemory::CountedRange> counted;
    counted.reserve(ranges.size());
    for (const nixlBasicDesc &range : ranges) {
        if (!counted.empty() && counted.back().range == range)
            ++counted.back().count;
        else
            counted.push_back({range, 1});
    }
    return counted;
}

/// The forms of a registration for transfers of the agent with itself and for peers.
Status
complete(LocalEntry &entry, const nixlBlobDesc &range) {
    Engine &engine = entry.engine->impl();
    if (entry.engine->capabilities().local) {
        auto loopback = engine.loopbackRegion(*entry.region, range, entry.memory);
        if (!loopback.ok())
            return loopback.status();
        entry.loopback = std::move(loopback).value();
    }
    if (entry.engine->capabilities().remote) {
        auto data = engine.publicData(*entry.region);
        if (!data.ok())
            return data.status();
        entry.publicData = std::move(data).value();
    }
    return {};
}

/// The list as engines get it: without a copy if nothing in it is unbounded.
std::span<const nixlBlobDesc>
normalizedList(const nixl_reg_dlist_t &descs, std::vector<nixlBlobDesc> &storage) {
    const std::span<const nixlBlobDesc> given(&descs[0], static_cast<std::size_t>(descs.descCount()));
    if (isMemory(descs.getType()))
        return given;
    storage.reserve(given.size());
    for (const nixlBlobDesc &desc : given)
        storage.emplace_back(normalized(descs.getType(), desc), desc.metaInfo);
    return storage;
}

std::vector<LocalRegion *>
pointersTo(const std::vector<std::unique_ptr<LocalRegion>> &regions) {
    std::vector<LocalRegion *> pointers;
    pointers.reserve(regions.size());
    for (const auto &region : regions)
        pointers.push_back(region.get());
    return pointers;
}

/// Registers a list in one engine, or nothing of it.
Result<std::vector<LocalEntryPtr>>
registerAll(const EnginePtr &engine, const nixl_reg_dlist_t &descs) {
    std::vector<nixlBlobDesc> storage;
    const auto ranges = normalizedList(descs, storage);
    std::vector<std::unique_ptr<LocalRegion>> regions;
    regions.reserve(ranges.size());
    const auto refuse = [&](std::size_t position, const Status &why) {
        return why.withContext(concat(engine->name(), " refuses descriptor ", position, ", ",
                                      describe(descs.getType(), descs[static_cast<unsigned>(position)])));
    };
    if (const Status status = engine->impl().registerRegions(ranges, descs.getType(), regions);
        !status.ok()) {
        engine->impl().discardRegions(pointersTo(regions));
        return refuse(regions.size(), status);
    }
    std::vector<LocalEntryPtr> entries;
    entries.reserve(ranges.size());
    RandomKeys keys(ranges.size());
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        auto entry = std::make_shared<LocalEntry>(ranges[i], descs.getType(), engine);
        entry->region = std::move(regions[i]);
        entry->key = keys.next();
        entries.push_back(std::move(entry));
    }
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        const Status status = complete(*entries[i], ranges[i]);
        if (status.ok())
            continue;
        std::vector<LocalRegion *> all;
        for (const LocalEntryPtr &entry : entries) {
            entry->loopback.reset();
            all.push_back(entry->region.get());
        }
        engine->impl().discardRegions(all);
        return refuse(i, status);
    }
    return entries;
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
    if (descs.isEmpty())
        return {};
    auto entries = registerAll(engine, descs);
    if (!entries.ok())
        return entries.status();
    WriteLock lock(mutex_);
    auto *section = const_cast<Section *>(find(engine.get(), descs.getType()));
    if (!section) {
        sections_.push_back(std::make_unique<Section>(Section{engine, descs.getType(), {}, {}}));
        section = sections_.back().get();
    }
    section->index.reserve(entries.value().size());
    for (LocalEntryPtr &entry : entries.value()) {
        LocalEntry &known = *entry;
        known.age = section->index.insert(known.desc, std::move(entry));
    }
    ++epoch_;
    return {};
}

std::size_t
LocalMemory::countOf(const Section &section, const nixlBasicDesc &range) const {
    const auto closing =
        std::count_if(section.closing.begin(), section.closing.end(),
                      [&](const LocalEntryPtr &entry) { return entry->desc == range && !entry->ending; });
    return section.index.count(range) + static_cast<std::size_t>(closing);
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
    for (; taken < count; ++taken) {
        const LocalEntryPtr *youngest = section.index.youngest(range);
        if (!youngest)
            return;
        const LocalEntryPtr entry = *youngest;
        section.index.erase(range, entry->age);
        section.closing.push_back(entry);
        entry->live.store(false);
        entry->ending = true;
        out.push_back(entry);
    }
}

Status
LocalMemory::checkRegistered(const std::vector<Section *> &sections,
                             const std::vector<CountedRange> &ranges) const {
    for (const auto &counted : ranges) {
        const auto &[range, count] = counted;
        const auto has = [&range = range](const Section *section) {
            return section->index.youngest(range) != nullptr;
        };
        if (count == 1 && std::any_of(sections.begin(), sections.end(), has))
            continue;
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

/// Ends closed registrations: first what uses them, then the engines' part, for all of an engine at once.
/// Without the lock, since both may wait.
Status
LocalMemory::finish(const std::vector<LocalEntryPtr> &entries,
                    const std::function<Status(const LocalEntryPtr &)> &quiesce) {
    Status first;
    const auto note = [&](const LocalEntry &entry, const Status &status) {
        if (first.ok())
            first = status.withContext(
                concat(entry.engine->name(), " cannot end ", describe(entry.memory, entry.desc)));
    };
    std::vector<LocalEntry *> ended, quiet;
    std::vector<LocalRegion *> regions;
    ended.reserve(entries.size());
    for (auto begin = entries.begin(); begin != entries.end();) {
        const EnginePtr &engine = (*begin)->engine;
        const auto end = std::find_if(begin, entries.end(),
                                      [&](const LocalEntryPtr &entry) { return entry->engine != engine; });
        quiet.clear();
        regions.clear();
        for (; begin != end; ++begin) {
            const Status status = (*begin)->running.load() > 0 ? quiesce(*begin) : Status();
            if (!status.ok()) {
                note(**begin, status);
                continue;
            }
            quiet.push_back(begin->get());
            regions.push_back((*begin)->region.get());
        }
        for (const Engine::Unended &unended : engine->impl().deregisterRegions(regions)) {
            note(*quiet[unended.position], unended.reason);
            quiet[unended.position] = nullptr;
        }
        std::copy_if(quiet.begin(), quiet.end(), std::back_inserter(ended),
                     [](const LocalEntry *entry) { return entry != nullptr; });
    }
    WriteLock lock(mutex_);
    for (const LocalEntryPtr &entry : entries)
        entry->ending = false;
    for (LocalEntry *entry : ended)
        entry->ended = true;
    for (const auto &section : sections_)
        std::erase_if(section->closing, [](const LocalEntryPtr &entry) { return entry->ended; });
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
    const auto ranges = countRanges(descs);
    ReadLock lock(mutex_);
    for (const EnginePtr &engine : candidates) {
        const Section *section = find(engine.get(), descs.getType());
        LocalSection copy{engine, descs.getType(), {}};
        for (const auto &[range, count] : ranges) {
            const LocalEntryPtr *oldest = section ? section->index.oldest(range) : nullptr;
            if (!oldest) {
                missing =
                    concat(describe(descs.getType(), range), " is not registered with ", engine->name());
                break;
            }
            copy.entries.push_back(*oldest);
        }
        if (copy.entries.size() == ranges.size())
            sections.push_back(std::move(copy));
    }
    if (sections.empty())
        return Status(NIXL_ERR_NOT_FOUND, missing);
    return std::make_pair(std::move(sections), epoch_);
}

} // namespace nixl
