// Whether bytes are a remote key as UCX packs it. UCX unpacks a key without being told its length, by what
// the key itself says. So every key of a peer is walked here before UCX sees it.
//
// The format is UCX's own and not documented by it; this is what UCX 1.19 to 1.23 pack (docs/wire-format.md).
// What is checked: that every part lies within the bytes and the last one ends with them, the type of memory,
// which UCX uses as an index, and the order of the devices at the end. What is not: the keys of the
// transports, whose form depends on hardware and on versions. UCX passes them on without their lengths, hence
// padded() of packed_bytes.h.
#pragma once

#include <string_view>

#include "util/status.h"

namespace nixl::ucx {

/// Success if `bytes` are exactly one remote key as ucp_rkey_pack() of UCX 1.`packer` returns it; `packer` is
/// what workerAddressPacker() said about the same peer, for UCX reads the key by it, too: since 1.20 a key
/// ends with the device of the memory. NIXL_ERR_MISMATCH with the position and what is wrong there else.
/// Callable from any thread; takes time in proportion to the bytes.
Status checkPackedKey(std::string_view bytes, unsigned packer);

} // namespace nixl::ucx
