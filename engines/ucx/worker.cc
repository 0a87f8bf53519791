#include "engines/ucx/worker.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "engines/ucx/link_message.h"
#include "util/log.h"

namespace nixl::ucx {

namespace {

using Clock = std::chrono::steady_clock;

/// How long the thread looks for more work before it sleeps, while something is under way: about what waking
/// up costs.
constexpr std::chrono::microseconds kSpin{50};

/// The longest sleep: while operations are under way of which there may be no event, and otherwise, where
/// none is known to need a bound.
constexpr int kSilentPollMs = 1;
constexpr int kSoonPollMs = 10;
constexpr int kPollMs = 1000;

/// Something to be done without locks.
class Errand : public Operation {
public:
    explicit Errand(std::function<void()> work) : work_(std::move(work)) {}

    bool
    over() const override {
        return true;
    }

    void
    ended() override {
        work_();
        delete this;
    }

private:
    const std::function<void()> work_;
};

} // namespace

Result<std::unique_ptr<ProgressWorker>>
ProgressWorker::create(Context &context, unsigned index) {
    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED; // our lock serialises
    ucp_worker_h handle = nullptr;
    const ucs_status_t status = context.api().worker_create(context.handle(), &params, &handle);
    if (status != UCS_OK)
        return context.failed(concat("ucp_worker_create of worker ", index), status);
    std::unique_ptr<ProgressWorker> worker(new ProgressWorker(context, index, handle));
    NIXL_RETURN_IF_ERROR(worker->receive(kPong, LinkTable::onPong, &worker->links_));
    return worker;
}

ProgressWorker::~ProgressWorker() {
    stopThread();
    api().worker_destroy(handle_);
}

Status
ProgressWorker::startThread() {
    if (threaded())
        return {};
    int eventFd = -1;
    const ucs_status_t status = locked([&] { return api().worker_get_efd(handle_, &eventFd); });
    if (status != UCS_OK)
        return context_.failed("ucp_worker_get_efd", status);
    wake_ = ScopedFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_.valid())
        return Status::error(NIXL_ERR_BACKEND, "eventfd: ", std::strerror(errno));
    threaded_.store(true, std::memory_order_release);
    thread_.start(concat("nixl-ucx-", index_), [this] { run(); });
    return {};
}

void
ProgressWorker::stopThread() {
    if (!threaded())
        return;
    stop_.store(true);
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
    thread_.join();
    threaded_.store(false);
}

Status
ProgressWorker::receive(unsigned id, ucp_am_recv_callback_t handler, void *argument) {
    ucp_am_handler_param_t param{};
    param.field_mask =
        UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    param.id = id;
    param.cb = handler;
    param.arg = argument;
    const ucs_status_t status = api().worker_set_am_recv_handler(handle_, &param);
    return status == UCS_OK ? Status() : context_.failed("ucp_worker_set_am_recv_handler", status);
}

Result<std::size_t>
ProgressWorker::headerLimit() const {
    ucp_worker_attr_t attributes{};
    attributes.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
    const ucs_status_t status = api().worker_query(handle_, &attributes);
    if (status != UCS_OK)
        return context_.failed("ucp_worker_query", status);
    return attributes.max_am_header;
}

Result<std::string>
ProgressWorker::address() const {
    ucp_worker_attr_t attributes{};
    attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS;
    const ucs_status_t status = api().worker_query(handle_, &attributes);
    if (status != UCS_OK)
        return context_.failed("ucp_worker_query", status);
    std::string bytes(reinterpret_cast<const char *>(attributes.address), attributes.address_length);
    api().worker_release_address(handle_, attributes.address);
    return bytes;
}

void
ProgressWorker::add(Operation &operation) {
    operations_.push_back(&operation);
}

void
ProgressWorker::later(std::function<void()> work) {
    add(*new Errand(std::move(work)));
}

ProgressWorker::Round
ProgressWorker::advance() {
    handed_ = false;
    Round round;
    round.any = api().worker_progress(handle_) != 0;
    // Whoever is fed first may take all the room that a connection has. Who that is has no rhythm, since room
    // may come in one.
    // Those that others add meanwhile are fed in the next round.
    const std::size_t count = operations_.size();
    const std::size_t first = count == 0 ? 0 : turns_() % count;
    for (std::size_t i = 0; i < count; ++i)
        operations_[(first + i) % count]->feed();
    Operation **end = &round.over;
    std::size_t kept = 0;
    for (Operation *operation : operations_) {
        if (!operation->over()) {
            operations_[kept++] = operation;
            continue;
        }
        *end = operation;
        end = &operation->nextOver_;
    }
    *end = nullptr;
    operations_.resize(kept);
    round.any |= round.over != nullptr;
    busy_.store(kept > 0, std::memory_order_relaxed);
    return round;
}

/// Whoever is told may be gone, or be under way again, at once.
void
ProgressWorker::finish(Operation *over) {
    while (over != nullptr)
        std::exchange(over, over->nextOver_)->ended();
}

bool
ProgressWorker::progress() {
    const Round round = locked([this]() NIXL_REQUIRES(mutex_) { return advance(); });
    finish(round.over);
    return round.any;
}

bool
ProgressWorker::tryProgress() {
    const Pollers::Poll poll(pollers_);
    if (!mutex_.try_lock())
        return false;
    const Round round = advance();
    mutex_.unlock();
    finish(round.over);
    // UCX tells of what comes, once. A round that took some of it may have left the rest, of which the
    // sleeping thread would not hear.
    if (round.any)
        wake();
    return round.any;
}

/// Ends the thread's sleep, if it sleeps: what was started here may need it without an event of UCX.
void
ProgressWorker::wake() {
    if (!threaded() || !sleeping_.load(std::memory_order_seq_cst))
        return;
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
}

void
ProgressWorker::run() {
    int eventFd = -1;
    locked([&] { return api().worker_get_efd(handle_, &eventFd); });
    auto active = Clock::now();
    while (!stop_.load(std::memory_order_relaxed)) {
        if (pollers_.stepAside(stop_))
            active = Clock::now();
        if (waiting_.load(std::memory_order_relaxed) > 0)
            std::this_thread::yield();
        const bool any = progress();
        const auto now = Clock::now();
        if (any)
            active = now;
        if (any || now - active < kSpin)
            continue;
        sleep(eventFd);
        active = Clock::now();
    }
}

void
ProgressWorker::sleep(int eventFd) {
    // From here on whoever hands something over writes to wake_. What was before is seen under the lock, and
    // so is what other callers left: UCX may be armed only when a round finds nothing, and tells only of what
    // comes later.
    sleeping_.store(true, std::memory_order_seq_cst);
    const ucs_status_t armed = locked([this]() NIXL_REQUIRES(mutex_) {
        return handed_ || api().worker_progress(handle_) != 0 ? UCS_ERR_BUSY : api().worker_arm(handle_);
    });
    if (armed == UCS_OK && !stop_.load()) {
        pollfd fds[] = {{eventFd, POLLIN, 0}, {wake_.get(), POLLIN, 0}};
        const bool silent = silent_.load(std::memory_order_relaxed) && busy_.load(std::memory_order_relaxed);
        const bool soon = soon_.exchange(false, std::memory_order_relaxed);
        (void)::poll(fds, 2, silent ? kSilentPollMs : soon ? kSoonPollMs : kPollMs);
    } else if (armed != UCS_OK && armed != UCS_ERR_BUSY) {
        NIXL_LOG(kError, "UCX: ucp_worker_arm: ", api().status_string(armed));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    sleeping_.store(false, std::memory_order_seq_cst);
    std::uint64_t count = 0;
    (void)!::read(wake_.get(), &count, sizeof count);
}

} // namespace nixl::ucx
