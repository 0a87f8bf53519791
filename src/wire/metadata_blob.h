// What an agent tells its peers: the bytes of NIXL 1.5.1, and behind them what only this implementation
// reads.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nixl_descriptors.h"
#include "util/status.h"

namespace nixl {

/// Identity of one life of an agent: random, new at every construction.
using Incarnation = std::array<std::uint8_t, 16>;

/// How one engine of the agent can be reached.
struct ConnectionEntry {
    std::string backend;
    std::string info; ///< the engine's bytes
};

/// Registrations of one engine and one kind of memory; metaInfo holds the engine's public data.
struct MetadataSection {
    std::string backend;
    nixl_reg_dlist_t descs{DRAM_SEG};
};

/// What plain NIXL neither writes nor reads (trailing bytes).
struct MetadataExtension {
    Incarnation incarnation{};
    std::uint64_t epoch = 0; ///< grows with every change of the agent's registrations
    bool full = false;       ///< all registrations of the agent, not a part
    /// A random key per registration: all descriptors of all sections in their order. Another key at the same
    /// range is another registration.
    std::vector<std::uint64_t> keys;
};

struct MetadataBlob {
    std::string agent;
    std::vector<ConnectionEntry> connections;
    std::vector<MetadataSection> sections;
    std::optional<MetadataExtension> extension;
};

/// Up to the extension the bytes are those that NIXL 1.5.1 writes (docs/wire-format.md).
/// REQUIRES: names and connection bytes are not empty, no section is empty (NIXL and decodeMetadata() refuse
/// the blob otherwise); keys, if any, are as many as the descriptors.
std::string encodeMetadata(const MetadataBlob &blob);

/// Bounded by the length of `bytes` in time and memory; all or nothing. NIXL_ERR_MISMATCH: not metadata, cut
/// off or malformed; NIXL_ERR_INVALID_PARAM: a section without engine name; NIXL_ERR_NOT_FOUND: an empty
/// section. The message names the connection, section and item. Trailing bytes that are not an extension of a
/// known version with keys for all descriptors or none are ignored: the blob then has no extension.
Result<MetadataBlob> decodeMetadata(std::string_view bytes);

} // namespace nixl
