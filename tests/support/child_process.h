// Another process for a test: a forked child that runs a function and talks with the test over a socket.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace nixl {

/// Sends and receives strings. Ends the process, with an exit status for the other side, if the other end is
/// gone.
class Line {
public:
    explicit Line(int fd) : fd_(fd) {}

    void
    send(const std::string &text) const {
        const std::uint64_t size = text.size();
        transfer(::write, const_cast<std::uint64_t *>(&size), sizeof size);
        transfer(::write, const_cast<char *>(text.data()), text.size());
    }

    std::string
    receive() const {
        std::uint64_t size = 0;
        transfer(::read, &size, sizeof size);
        std::string text(size, '\0');
        transfer(::read, text.data(), size);
        return text;
    }

    int
    fd() const {
        return fd_;
    }

private:
    template<typename Call>
    void
    transfer(Call call, void *data, std::size_t size) const {
        auto *at = static_cast<char *>(data);
        while (size > 0) {
            const ssize_t moved = call(fd_, at, size);
            if (moved <= 0)
                throw std::runtime_error("the other process is gone");
            at += moved;
            size -= static_cast<std::size_t>(moved);
        }
    }

    int fd_;
};

/// Fork while the process has one thread: before engines are made, or after all of them have ended.
class ChildProcess {
public:
    explicit ChildProcess(const std::function<void(Line &)> &body) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
            abort();
        pid_ = fork();
        if (pid_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(ends[0]);
            Line line(ends[1]);
            try {
                body(line);
            } catch (const std::exception &) {
                _exit(70);
            }
            _exit(0);
        }
        close(ends[1]);
        line_ = ends[0];
    }

    ChildProcess(const ChildProcess &) = delete;

    ~ChildProcess() {
        close(line_);
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            wait();
        }
    }

    pid_t
    pid() const {
        return pid_;
    }

    Line
    line() const {
        return Line(line_);
    }

    void
    signal(int number) const {
        ::kill(pid_, number);
    }

    /// Waits until it is stopped.
    void
    stop() const {
        ::kill(pid_, SIGSTOP);
        int status;
        waitpid(pid_, &status, WUNTRACED);
    }

    /// Waits for its end; the wait status.
    int
    wait() {
        int status = 0;
        while (pid_ > 0 && waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
        }
        pid_ = 0;
        return status;
    }

private:
    pid_t pid_ = 0;
    int line_ = -1;
};

} // namespace nixl
