#include "directory.h"

#include <cstring>
#include <map>
#include <shared_mutex>

namespace inmem {

namespace {

struct Segment {
    std::uintptr_t address;
    std::size_t length;
};

struct Entry {
    std::string agent;
    std::map<SegmentId, Segment> segments;
    notif_list_t messages; // guarded by messagesMutex
};

struct Directory {
    /// Shared by those who copy, alone for those who change: so a segment's end waits for copies under way.
    std::shared_mutex mutex;
    std::map<MemberId, Entry> members;
    std::uint64_t next = 1;
    std::mutex messagesMutex; // taken with `mutex` held

    static Directory &
    get() {
        static Directory directory;
        return directory;
    }
};

MemberId
enter(std::string agent) {
    Directory &directory = Directory::get();
    const std::unique_lock lock(directory.mutex);
    const MemberId id = directory.next++;
    directory.members[id].agent = std::move(agent);
    return id;
}

/// Under the directory's mutex.
CopyResult
check(const Directory &directory, const Place &place, std::size_t length) {
    const auto member = directory.members.find(place.member);
    if (member == directory.members.end())
        return CopyResult::kNoMember;
    const auto found = member->second.segments.find(place.segment);
    if (found == member->second.segments.end())
        return CopyResult::kNoSegment;
    const Segment &segment = found->second;
    const bool inside = place.address >= segment.address &&
                        place.address - segment.address <= segment.length &&
                        length <= segment.length - (place.address - segment.address);
    return inside ? CopyResult::kDone : CopyResult::kNoSegment;
}

} // namespace

Member::Member(std::string agent) : id_(enter(std::move(agent))) {}

Member::~Member() {
    Directory &directory = Directory::get();
    const std::unique_lock lock(directory.mutex);
    directory.members.erase(id_);
}

SegmentId
Member::add(std::uintptr_t address, std::size_t length) {
    Directory &directory = Directory::get();
    const std::unique_lock lock(directory.mutex);
    const SegmentId id = directory.next++;
    directory.members.at(id_).segments[id] = {address, length};
    return id;
}

void
Member::remove(SegmentId segment) {
    Directory &directory = Directory::get();
    const std::unique_lock lock(directory.mutex);
    directory.members.at(id_).segments.erase(segment);
}

notif_list_t
Member::takeMessages() {
    Directory &directory = Directory::get();
    const std::shared_lock lock(directory.mutex);
    const std::lock_guard messagesLock(directory.messagesMutex);
    return std::exchange(directory.members.at(id_).messages, {});
}

bool
exists(MemberId member) {
    Directory &directory = Directory::get();
    const std::shared_lock lock(directory.mutex);
    return directory.members.count(member) != 0;
}

bool
send(const std::string &fromAgent, MemberId to, const std::string &message) {
    Directory &directory = Directory::get();
    const std::shared_lock lock(directory.mutex);
    const auto target = directory.members.find(to);
    if (target == directory.members.end())
        return false;
    const std::lock_guard messagesLock(directory.messagesMutex);
    target->second.messages.emplace_back(fromAgent, message);
    return true;
}

CopyResult
copy(const Place &from, const Place &to, std::size_t length) {
    Directory &directory = Directory::get();
    const std::shared_lock lock(directory.mutex);
    for (const Place *place : {&from, &to})
        if (const CopyResult result = check(directory, *place, length); result != CopyResult::kDone)
            return result;
    std::memmove(reinterpret_cast<void *>(to.address), reinterpret_cast<const void *>(from.address), length);
    return CopyResult::kDone;
}

std::string
pack(char kind, std::uint64_t number) {
    std::string bytes = "inmem";
    bytes += kind;
    bytes.append(reinterpret_cast<const char *>(&number), sizeof number);
    return bytes;
}

std::optional<std::uint64_t>
unpack(char kind, const std::string &bytes) {
    std::uint64_t number;
    const std::string head = std::string("inmem") + kind;
    if (bytes.size() != head.size() + sizeof number || bytes.compare(0, head.size(), head) != 0)
        return std::nullopt;
    std::memcpy(&number, bytes.data() + head.size(), sizeof number);
    return number;
}

} // namespace inmem
