// Memory files, and what C libraries older than the kernel do not name of them.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>

#include "util/scoped_fd.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace nixl {

/// A memfd that can be sealed, is closed on exec and, where the kernel knows how, never executable; `flags`
/// are added. Invalid, with errno, if there is none.
ScopedFd createMemfd(const char *name, unsigned flags = 0);

} // namespace nixl
