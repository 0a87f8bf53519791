// A file descriptor with one owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace nixl {

class ScopedFd {
public:
    ScopedFd() = default;

    explicit ScopedFd(int fd) : fd_(fd) {}

    ScopedFd(ScopedFd &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

    ScopedFd &
    operator=(ScopedFd &&other) noexcept {
        if (this != &other) {
            reset();
            fd_ = std::exchange(other.fd_, -1);
        }
        return *this;
    }

    ~ScopedFd() {
        reset();
    }

    int
    get() const {
        return fd_;
    }

    bool
    valid() const {
        return fd_ >= 0;
    }

    void
    reset() {
        if (fd_ >= 0)
            ::close(std::exchange(fd_, -1));
    }

    int
    release() {
        return std::exchange(fd_, -1);
    }

private:
    int fd_ = -1;
};

} // namespace nixl
