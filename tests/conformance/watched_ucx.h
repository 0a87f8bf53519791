// The engine UCX, every call of which into UCX that concerns an endpoint is watched.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>

#include "engines/ucx/block_message.h"
#include "engines/ucx/engine.h"
#include "util/mutex.h"

namespace nixl::conformance {

/// One per process: UCX is called through plain functions.
struct UcxCalls {
    std::atomic<int> callsLeft{-1}; ///< calls until `atCall` runs; below 0: it does not
    std::function<void()> atCall;
    std::atomic<bool> putFails{false}; ///< the next put, of one block or of many, fails on this side
    std::atomic<int> late{0};          ///< calls on endpoints whose error handler was called
    std::atomic<int> unpacked{0};      ///< remote keys
    std::atomic<int> puts{0};          ///< of one block
    std::atomic<int> gets{0};          ///< of one block
    std::atomic<int> requests{0};      ///< messages about packed blocks, without the answers to them

    Mutex mutex;
    std::set<ucp_ep_h> put NIXL_GUARDED_BY(mutex); ///< endpoints that puts went to
};

UcxCalls &ucxCalls();

/// The factory of such engines.
std::shared_ptr<EngineFactory> makeWatchedUcxFactory();

} // namespace nixl::conformance
