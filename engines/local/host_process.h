// What all LOCAL engines of a process share: the control thread, the copying threads, the life page, the
// marks.
#pragma once

#include <map>
#include <memory>

#include "engines/local/copy_pool.h"
#include "engines/local/endpoint.h"
#include "engines/local/heartbeat.h"
#include "engines/local/life_page.h"
#include "engines/local/marks.h"
#include "engines/local/proof_slots.h"
#include "util/event_loop.h"
#include "util/mutex.h"
#include "util/status.h"
#include "wire/metadata_blob.h"

namespace nixl::local {

/// Exists while an engine does. Only engines own it, so that its end joins threads from outside of them.
/// Thread-safe. A forked child gets one of its own.
class HostProcess {
public:
    /// The one of this process; starts it if there is none.
    static Result<std::shared_ptr<HostProcess>> get();

    ~HostProcess();

    EventLoop &
    loop() {
        return *loop_;
    }

    Heartbeat &
    heartbeat() {
        return heartbeat_;
    }

    CopyPool &
    pool() {
        return pool_;
    }

    LifePage &
    life() {
        return *life_;
    }

    /// Set by every copy of this process.
    MarkPage &
    marks() {
        return marks_;
    }

    ProofSlots &
    proofs() {
        return proofs_;
    }

    void add(std::shared_ptr<Endpoint> endpoint);
    void remove(const Incarnation &incarnation);

    /// The engine of this process with that incarnation; nullptr: there is none.
    std::shared_ptr<Endpoint> find(const Incarnation &incarnation) const;

private:
    HostProcess(std::unique_ptr<EventLoop> loop, std::unique_ptr<LifePage> life, ProofSlots proofs);
    static Result<std::shared_ptr<HostProcess>> start();

    const std::unique_ptr<LifePage> life_; // longer than the loop: the kernel reads it when the thread ends
    MarkPage marks_{};
    ProofSlots proofs_;
    CopyPool pool_;
    mutable Mutex mutex_;
    std::map<Incarnation, std::shared_ptr<Endpoint>> endpoints_ NIXL_GUARDED_BY(mutex_);
    Heartbeat heartbeat_;
    const std::unique_ptr<EventLoop> loop_;
};

} // namespace nixl::local
