// Who is in this process: engines and their registrations, by number.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "backend/backend_aux.h"

namespace inmem {

using MemberId = std::uint64_t;  ///< an engine; never used twice
using SegmentId = std::uint64_t; ///< a registration; never used twice

/// An engine's place in the directory, from construction to destruction.
class Member {
public:
    explicit Member(std::string agent);
    ~Member();
    Member(const Member &) = delete;
    Member &operator=(const Member &) = delete;

    MemberId
    id() const {
        return id_;
    }

    SegmentId add(std::uintptr_t address, std::size_t length);

    /// When it returns nobody copies from or to the segment any more.
    void remove(SegmentId segment);

    /// Takes the messages that arrived.
    notif_list_t takeMessages();

private:
    const MemberId id_;
};

bool exists(MemberId member);

/// False if the member does not exist.
bool send(const std::string &fromAgent, MemberId to, const std::string &message);

/// One side of a copy.
struct Place {
    MemberId member;
    SegmentId segment;
    std::uintptr_t address;
};

enum class CopyResult { kDone, kNoMember, kNoSegment };

/// Copies if both segments exist and hold the bytes.
CopyResult copy(const Place &from, const Place &to, std::size_t length);

/// Numbers as bytes for peers, and back; nullopt for anything that `pack` did not write.
std::string pack(char kind, std::uint64_t number);
std::optional<std::uint64_t> unpack(char kind, const std::string &bytes);

} // namespace inmem
