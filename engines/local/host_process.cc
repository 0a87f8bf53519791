#include "engines/local/host_process.h"

#include <atomic>
#include <utility>

#include "util/fork_guard.h"

namespace nixl::local {

namespace {

/// Where the process finds its HostProcess.
struct Home {
    const std::uint64_t depth = forkDepth();
    Mutex mutex;
    std::weak_ptr<HostProcess> process NIXL_GUARDED_BY(mutex);
};

/// A forked child leaves its parent's behind: another thread may have held the lock when the fork happened.
Home &
home() {
    static std::atomic<Home *> current{nullptr};
    Home *seen = current.load(std::memory_order_acquire);
    while (seen == nullptr || seen->depth != forkDepth()) {
        auto fresh = std::make_unique<Home>();
        if (current.compare_exchange_strong(seen, fresh.get(), std::memory_order_acq_rel))
            return *fresh.release();
    }
    return *seen;
}

} // namespace

Result<std::shared_ptr<HostProcess>>
HostProcess::get() {
    Home &here = home();
    const LockGuard lock(here.mutex);
    if (auto process = here.process.lock())
        return process;
    auto process = start();
    if (process.ok())
        here.process = process.value();
    return process;
}

Result<std::shared_ptr<HostProcess>>
HostProcess::start() {
    auto life = LifePage::create();
    if (!life.ok())
        return life.status();
    auto proofs = ProofSlots::create();
    if (!proofs.ok())
        return proofs.status();
    auto loop = EventLoop::create("nixl-control");
    if (!loop.ok())
        return loop.status();
    Status adopted;
    loop.value()->call([&] { adopted = life.value()->adopt(); });
    if (!adopted.ok()) {
        loop.value().reset(); // before the page, which the kernel reads when the thread ends
        return adopted;
    }
    return std::shared_ptr<HostProcess>(
        new HostProcess(std::move(loop).value(), std::move(life).value(), std::move(proofs).value()));
}

HostProcess::HostProcess(std::unique_ptr<EventLoop> loop, std::unique_ptr<LifePage> life, ProofSlots proofs)
    : life_(std::move(life)), proofs_(std::move(proofs)), heartbeat_(*loop), loop_(std::move(loop)) {}

HostProcess::~HostProcess() {
    pool_.stop(); // its threads may still let go of a finished transfer, and post to the loop
    loop_->call([this] { life_->end(); });
}

void
HostProcess::add(std::shared_ptr<Endpoint> endpoint) {
    const LockGuard lock(mutex_);
    const Incarnation incarnation = endpoint->incarnation;
    endpoints_[incarnation] = std::move(endpoint);
}

void
HostProcess::remove(const Incarnation &incarnation) {
    const LockGuard lock(mutex_);
    endpoints_.erase(incarnation);
}

std::shared_ptr<Endpoint>
HostProcess::find(const Incarnation &incarnation) const {
    const LockGuard lock(mutex_);
    const auto found = endpoints_.find(incarnation);
    return found == endpoints_.end() ? nullptr : found->second;
}

} // namespace nixl::local
