// Whether bytes are a worker address as UCX packs it. UCX reads an address without being told its length: a
// cut off or forged one makes it read foreign memory, and one of an unknown version ends the process. So
// every address of a peer is walked here before UCX sees it.
//
// The format is UCX's own and not documented by it; this is what UCX 1.19 to 1.23 pack (docs/wire-format.md).
// What is checked: the version, that every part lies within the bytes and the last one ends with them, what
// UCX would use as an index, and that numbers it compares are numbers. What is not: names of transports,
// flags (an unknown one is skipped, as UCX skips it) and the contents of device and interface addresses,
// which belong to transports that this file need not know.
//
// Not covered: UCX_UNIFIED_MODE=y, whose addresses lack lengths and mean something only together with tables
// of the reader. They are refused; a context that reads checked addresses must not be in that mode.
#pragma once

#include <string_view>
#include <vector>

#include "util/status.h"

namespace nixl::ucx {

/// Success if `bytes` are exactly one worker address, as ucp_worker_query() returns it. NIXL_ERR_MISMATCH
/// with the position and what is wrong there else. Callable from any thread; takes time in proportion to the
/// bytes.
Status checkWorkerAddress(std::string_view bytes);

/// The same check, and the minor version of the UCX that packed the address (22: UCX 1.22) as a UCX of minor
/// version `ownMinor` understands it: only four bits of it are packed, read as the version next to the own.
/// 0: the address does not tell; it is from before 1.16 or of a worker without devices. What checkPackedKey()
/// needs to know.
Result<unsigned> workerAddressPacker(std::string_view bytes, unsigned ownMinor);

/// What a worker address has of an interface over TCP.
struct TcpInterface {
    std::string_view device;
    std::string_view interface;
};

/// Views into `bytes`. Nothing if they are not a worker address.
std::vector<TcpInterface> tcpInterfaces(std::string_view bytes);

} // namespace nixl::ucx
