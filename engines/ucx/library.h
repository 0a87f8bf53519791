// The UCX that this process uses.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engines/ucx/api.h"
#include "util/options.h"
#include "util/status.h"

namespace nixl::ucx {

/// A UCX library, found, opened and bound. Stays loaded until the process ends; one per process.
class Library {
public:
    /// The library of the process, looked for and opened at the first call; a failure is not kept, since the
    /// next call may come with other options. Thread-safe. NIXL_ERR_BACKEND: none can be used; the message
    /// says what was looked at, why each was refused, and what to install.
    static Result<std::shared_ptr<const Library>> get(const Options &options);

    /// The same library, called through other functions: for tests that watch or disturb its calls.
    std::shared_ptr<const Library>
    calledThrough(const Api &api) const {
        std::shared_ptr<Library> copy(new Library(*this));
        copy->api_ = api;
        return copy;
    }

    const Api &
    api() const {
        return api_;
    }

    /// "1.22.0".
    const std::string &
    version() const {
        return version_;
    }

    /// The file of libucp.
    const std::string &
    path() const {
        return path_;
    }

    /// Why this one: one clause.
    const std::string &
    reason() const {
        return reason_;
    }

    /// What a person should know about this choice: another UCX in the process, RDMA devices that it cannot
    /// drive, candidates that were refused.
    const std::vector<std::string> &
    notes() const {
        return notes_;
    }

    /// The transports that it has as modules beside it: "cma", "cuda", "ib". TCP and shared memory are always
    /// there.
    const std::vector<std::string> &
    transports() const {
        return transports_;
    }

private:
    friend class LibraryLoader;
    Library() = default;
    Library(const Library &) = default;

    Api api_;
    std::string version_;
    std::string path_;
    std::string reason_;
    std::vector<std::string> notes_;
    std::vector<std::string> transports_;
};

} // namespace nixl::ucx
