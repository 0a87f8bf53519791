// A UCX context: what the workers of one engine share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engines/ucx/library.h"
#include "engines/ucx/settings.h"
#include "util/status.h"

namespace nixl::ucx {

/// Thread-safe.
class Context {
public:
    /// Its workers can be slept on. NIXL_ERR_INVALID_PARAM: a setting that this UCX does not take;
    /// NIXL_ERR_BACKEND: UCX does not start with these settings.
    static Result<std::unique_ptr<Context>> create(std::shared_ptr<const Library> library,
                                                   const Settings &settings);

    /// REQUIRES: its workers and regions are gone.
    ~Context();
    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;

    const Api &
    api() const {
        return library_->api();
    }

    ucp_context_h
    handle() const {
        return handle_;
    }

    const Library &
    library() const {
        return *library_;
    }

    /// 22 for UCX 1.22.
    unsigned minorVersion() const;

    /// Whether UCX tells device memory from host memory here.
    bool knowsDeviceMemory() const;

    /// An error of a call that concerns no peer: NIXL_ERR_BACKEND, with UCX's words for it. To be told of
    /// this call and no earlier one, forget what was said before it.
    Status failed(const std::string &call, ucs_status_t status) const;

private:
    Context(std::shared_ptr<const Library> library, ucp_context_h handle, std::uint64_t memoryTypes)
        : library_(std::move(library)), handle_(handle), memoryTypes_(memoryTypes) {}

    const std::shared_ptr<const Library> library_;
    const ucp_context_h handle_;
    const std::uint64_t memoryTypes_; // bits of ucs_memory_type_t
};

/// Whether the status of an operation on an endpoint means that the other end is not there (any more).
bool meansDisconnected(ucs_status_t status);

/// Forgets what UCX said on this thread.
void forgetUcxMessage();

} // namespace nixl::ucx
