// Copies of many pieces at once, within this process or to and from another one.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <optional>
#include <span>

#include "nixl_types.h"

namespace nixl::local {

/// Where a copy stopped.
struct CopyFault {
    std::size_t piece;      ///< index of the piece
    std::size_t offset;     ///< bytes of the piece that were copied
    int error;              ///< errno; EFAULT: one of the addresses cannot be accessed
    bool remoteSide = true; ///< with EFAULT: whether it is the address of the other process
};

/// Copies between pieces of equal lengths, in one system call if nothing goes wrong. `pid` 0: `remote` is
/// memory of this process. The entries are used up. REQUIRES: at most IOV_MAX pieces.
std::optional<CopyFault> copyPieces(pid_t pid, nixl_xfer_op_t operation, std::span<iovec> local,
                                    std::span<iovec> remote);

/// The first or the last address of a range of this process, if it cannot be read; nullopt: both can. Where a
/// filter forbids to ask, only what is not mapped at all is found. REQUIRES: length > 0.
std::optional<std::uint64_t> unreachableEnd(std::uint64_t address, std::uint64_t length);

/// The first or the last address of a range of this process, if it cannot be written; nullopt: both can.
/// Changes no byte, whatever other threads do. REQUIRES: length > 0.
std::optional<std::uint64_t> unwritableEnd(std::uint64_t address, std::uint64_t length);

/// How many process_vm calls this process has made; for tests of batching.
std::uint64_t processVmCalls();

} // namespace nixl::local
