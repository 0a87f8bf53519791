#include "util/worker.h"

#include <pthread.h>
#include <signal.h>

namespace nixl {

void
Worker::start(const std::string &name, std::function<void()> body) {
    guard_ = ForkGuard();
    // The mask is inherited, so that not one instruction of the thread runs with signals open.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);

    const struct RestoreSignals {
        const sigset_t &mask;

        ~RestoreSignals() {
            pthread_sigmask(SIG_SETMASK, &mask, nullptr);
        }
    } restore{before}; // also if no thread can be started

    thread_ = std::make_unique<std::thread>([name, body = std::move(body)] {
        pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
        body();
    });
}

void
Worker::join() {
    if (!thread_)
        return;
    if (guard_.inherited()) {
        (void)thread_.release(); // joining or detaching it would touch a thread that is not there
        return;
    }
    thread_->join();
    thread_.reset();
}

} // namespace nixl
