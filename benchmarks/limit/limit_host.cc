// What the machine allows between two processes: the yardstick of the transfers.
//
// usage: limit_host BYTES THREADS
//
// Prints which part of its memory lies in huge pages: its own, the other process's, the shared one. Then, a
// line on standard input each, `METHOD THREADS REPETITIONS BLOCK FILE`, answered by the seconds of every
// repetition on one line. THREADS is at most that of the command line. FILE holds pairs of 64-bit block
// numbers: the local and the other process's. Methods:
//   memcpy_write, memcpy_read  copies between a memfd of this process and one that both processes map
//   memcpy_local               copies within private memory, from the first block of a pair to the second
//   vm_write, vm_read          process_vm_writev and process_vm_readv with as many pieces per call as they
//                              take
//   socket_write               a TCP connection on loop-back; only the number of bytes counts
//   unix_echo, tcp_echo        a round trip of eight bytes between two processes that poll, the mean of many;
//                              the blocks do not matter
// All but the last three spread the blocks over the threads. Only the movement is timed; all pages exist
// before.
#include <sys/uio.h>

#include <algorithm>
#include <barrier>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "echo.h"
#include "memory.h"
#include "other_process.h"
#include "sockets.h"

namespace limit {
namespace {

// What one call of process_vm_writev takes.
constexpr std::size_t kPiecesPerCall = 1024;
constexpr std::size_t kTrips = 10000;

/// Threads that start a piece of work together; the calling thread is the first of them.
class Team {
public:
    explicit Team(std::size_t threads) : gate_(static_cast<std::ptrdiff_t>(threads)) {
        for (std::size_t index = 1; index < threads; ++index)
            helpers_.emplace_back([this, index] {
                for (;;) {
                    gate_.arrive_and_wait();
                    if (!work_)
                        return;
                    work_(index);
                    gate_.arrive_and_wait();
                }
            });
    }

    ~Team() {
        work_ = nullptr;
        gate_.arrive_and_wait();
        for (std::thread &helper : helpers_)
            helper.join();
    }

    Team(const Team &) = delete;
    Team &operator=(const Team &) = delete;

    [[nodiscard]] std::size_t
    size() const {
        return helpers_.size() + 1;
    }

    /// Returns when work(0) ... work(threads - 1), which must not throw, have returned.
    void
    run(std::size_t threads, const std::function<void(std::size_t)> &work) {
        if (threads == 1) {
            work(0);
            return;
        }
        work_ = [&work, threads](std::size_t index) {
            if (index < threads)
                work(index);
        };
        gate_.arrive_and_wait();
        work_(0);
        gate_.arrive_and_wait();
    }

private:
    std::barrier<> gate_;
    std::function<void(std::size_t)> work_;
    std::vector<std::thread> helpers_;
};

struct Blocks {
    std::size_t size = 0;
    std::vector<std::uint64_t> numbers; // local, other, local, other, ...

    [[nodiscard]] std::size_t
    count() const {
        return numbers.size() / 2;
    }
};

Blocks
readBlocks(const std::string &path, std::size_t size, std::size_t memoryBytes) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file || size == 0)
        throw std::runtime_error("cannot read " + path);
    Blocks blocks{size, std::vector<std::uint64_t>(static_cast<std::size_t>(file.tellg()) / 16 * 2)};
    file.seekg(0);
    file.read(reinterpret_cast<char *>(blocks.numbers.data()),
              static_cast<std::streamsize>(blocks.numbers.size() * 8));
    for (const std::uint64_t number : blocks.numbers)
        if (number >= memoryBytes / size)
            throw std::runtime_error("block " + std::to_string(number) + " lies outside of the memory");
    return blocks;
}

struct Piece {
    std::size_t local, other, length;
};

/// Blocks dealt out to threads; fewer blocks than threads are cut, at pages.
std::vector<std::vector<Piece>>
deal(const Blocks &blocks, std::size_t threads) {
    const std::size_t cuts = blocks.count() >= threads ? 1 : threads;
    const std::size_t part = std::max<std::size_t>((blocks.size / cuts + 4095) / 4096 * 4096, 4096);
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < blocks.count(); ++i)
        for (std::size_t done = 0, length; done < blocks.size; done += length) {
            length = cuts == 1 ? blocks.size : std::min(part, blocks.size - done);
            pieces.push_back({blocks.numbers[2 * i] * blocks.size + done,
                              blocks.numbers[2 * i + 1] * blocks.size + done, length});
        }
    std::vector<std::vector<Piece>> shares(threads);
    for (std::size_t i = 0; i < threads; ++i)
        shares[i].assign(pieces.begin() + static_cast<std::ptrdiff_t>(pieces.size() * i / threads),
                         pieces.begin() + static_cast<std::ptrdiff_t>(pieces.size() * (i + 1) / threads));
    return shares;
}

class Yardstick {
public:
    // A page that exists before the fork is shared until it is written to, and a huge one falls apart then:
    // so the other processes are there before anything is touched here.
    Yardstick(std::size_t bytes, std::size_t threads)
        : unixEcho_(unixSockets()), tcpEcho_(tcpSockets()), bytes_(bytes), shared_(mapShared(bytes)),
          remote_(mapPrivate(bytes)), other_(remote_, shared_, bytes), local_(mapPrivate(bytes)),
          lent_(mapShared(bytes)), team_(threads) {
        std::memset(local_, 1, bytes);
        std::memset(lent_, 1, bytes);
        std::memset(shared_, 1, bytes);
    }

    [[nodiscard]] std::string
    hugeShares() const {
        std::ostringstream text;
        text << hugeShare(local_, bytes_) << ' ' << other_.hugeShare() << ' ' << hugeShare(shared_, bytes_);
        return text.str();
    }

    std::vector<double>
    measure(const std::string &method, std::size_t threads, int repetitions, std::size_t blockSize,
            const std::string &path) {
        if (threads == 0 || threads > team_.size())
            throw std::runtime_error("there are " + std::to_string(team_.size()) + " threads");
        if (method == "unix_echo" || method == "tcp_echo")
            return timedTrips(method == "unix_echo" ? unixEcho_ : tcpEcho_, repetitions);
        const Blocks blocks = readBlocks(path, blockSize, bytes_);
        if (method == "socket_write")
            return timed(repetitions, [&] { other_.send(local_, blocks.count() * blocks.size); });
        const auto shares = deal(blocks, threads);
        if (method == "memcpy_write")
            return timedCopies(repetitions, shares, lent_, shared_, true);
        if (method == "memcpy_read")
            return timedCopies(repetitions, shares, lent_, shared_, false);
        if (method == "memcpy_local")
            return timedCopies(repetitions, shares, local_, local_, true);
        if (method == "vm_write" || method == "vm_read")
            return timedSystemCalls(method == "vm_write", repetitions, shares);
        throw std::runtime_error("unknown method '" + method + "'");
    }

private:
    template<typename Work>
    static std::vector<double>
    timed(int repetitions, Work work) {
        std::vector<double> seconds;
        for (int i = 0; i < repetitions; ++i) {
            const auto begin = std::chrono::steady_clock::now();
            work();
            seconds.push_back(
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        }
        return seconds;
    }

    static std::vector<double>
    timedTrips(const Echo &echo, int repetitions) {
        std::vector<double> seconds = timed(repetitions, [&] { echo.trips(kTrips); });
        for (double &of : seconds)
            of /= kTrips;
        return seconds;
    }

    std::vector<double>
    timedCopies(int repetitions, const std::vector<std::vector<Piece>> &shares, std::byte *near,
                std::byte *far, bool toFar) {
        return timed(repetitions, [&] {
            team_.run(shares.size(), [&](std::size_t index) {
                for (const Piece &piece : shares[index])
                    if (toFar)
                        std::memcpy(far + piece.other, near + piece.local, piece.length);
                    else
                        std::memcpy(near + piece.local, far + piece.other, piece.length);
            });
        });
    }

    std::vector<double>
    timedSystemCalls(bool toOther, int repetitions, const std::vector<std::vector<Piece>> &shares) {
        std::vector<std::vector<iovec>> local(shares.size()), remote(shares.size());
        for (std::size_t i = 0; i < shares.size(); ++i)
            for (const Piece &piece : shares[i]) {
                local[i].push_back({local_ + piece.local, piece.length});
                remote[i].push_back({remote_ + piece.other, piece.length});
            }
        std::vector<int> errors(shares.size());
        auto seconds = timed(repetitions, [&] {
            team_.run(shares.size(), [&](std::size_t index) {
                errors[index] |= move(local[index], remote[index], toOther) ? 0 : EIO;
            });
        });
        for (const int error : errors)
            if (error != 0)
                throw std::runtime_error("process_vm moved less than it was told");
        return seconds;
    }

    [[nodiscard]] bool
    move(const std::vector<iovec> &local, const std::vector<iovec> &remote, bool toOther) const {
        const auto call = toOther ? process_vm_writev : process_vm_readv;
        for (std::size_t done = 0; done < local.size(); done += kPiecesPerCall) {
            const std::size_t count = std::min(kPiecesPerCall, local.size() - done);
            std::size_t bytes = 0;
            for (std::size_t i = done; i < done + count; ++i)
                bytes += local[i].iov_len;
            if (call(other_.pid(), &local[done], count, &remote[done], count, 0) !=
                static_cast<ssize_t>(bytes))
                return false;
        }
        return true;
    }

    Echo unixEcho_, tcpEcho_;
    std::size_t bytes_;
    std::byte *shared_, *remote_;
    OtherProcess other_;
    std::byte *local_, *lent_; // of this process: private, and as nixl.alloc has it
    Team team_;
};

int
serve(std::size_t bytes, std::size_t threads) {
    Yardstick yardstick(bytes, threads);
    std::cout << yardstick.hugeShares() << std::endl;
    std::string line, method, path;
    while (std::getline(std::cin, line)) {
        int repetitions = 0;
        std::size_t block = 0, used = 0;
        std::istringstream words(line);
        if (!(words >> method >> used >> repetitions >> block) || !std::getline(words >> std::ws, path))
            throw std::runtime_error("not a command: " + line);
        std::ostringstream answer;
        answer.precision(9);
        for (const double seconds : yardstick.measure(method, used, repetitions, block, path))
            answer << seconds << ' ';
        std::cout << answer.str() << std::endl;
    }
    return 0;
}

} // namespace
} // namespace limit

int
main(int argc, char **argv) {
    const std::size_t bytes = argc == 3 ? std::strtoull(argv[1], nullptr, 10) : 0;
    const std::size_t threads = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 0;
    if (bytes == 0 || threads == 0 || threads > 1024) {
        std::cerr << "usage: limit_host BYTES THREADS\n";
        return 2;
    }
    try {
        return limit::serve(bytes, threads);
    } catch (const std::exception &error) {
        std::cerr << "limit_host: " << error.what() << '\n';
        return 1;
    }
}
