#include "util/memfd.h"

#include <errno.h>

namespace nixl {

ScopedFd
createMemfd(const char *name, unsigned flags) {
    flags |= MFD_CLOEXEC | MFD_ALLOW_SEALING;
    // Systems can demand that memfds are not executable; older kernels do not know the flag.
    ScopedFd fd(memfd_create(name, flags | MFD_NOEXEC_SEAL));
    if (!fd.valid() && errno == EINVAL)
        fd = ScopedFd(memfd_create(name, flags));
    return fd;
}

} // namespace nixl
