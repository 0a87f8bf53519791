// Ranks in processes of their own exchange tensors as nvFuser's client does.
#include <gtest/gtest.h>

#include <poll.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <ostream>

#include "clients/rank_client.h"
#include "support/child_process.h"

namespace nixl::test {
namespace {

constexpr int kRanks = 2;
constexpr std::chrono::seconds kPatience{60};

/// The end of a rank: each call is a message to the test's process, which answers when the others have come.
class RemoteStore : public Store {
public:
    explicit RemoteStore(Line &line) : line_(line) {}

    void
    set(const std::string &key, const std::string &value) override {
        line_.send("set");
        line_.send(key);
        line_.send(value);
    }

    std::string
    get(const std::string &key) override {
        line_.send("get");
        line_.send(key);
        return line_.receive();
    }

    void
    remove(const std::string &key) override {
        line_.send("remove");
        line_.send(key);
    }

    void
    barrier(const std::function<void()> &meanwhile) override {
        line_.send("barrier");
        pollfd answer{line_.fd(), POLLIN, 0};
        while (::poll(&answer, 1, 0) == 0)
            meanwhile();
        line_.receive();
    }

private:
    Line &line_;
};

/// The test's side: serves every rank until all have ended.
class StoreServer {
public:
    explicit StoreServer(const std::vector<Line> &lines) : lines_(lines) {}

    /// False: they did not end in time, or one waits for another that has ended.
    bool
    run() {
        const auto end = std::chrono::steady_clock::now() + kPatience;
        std::vector<pollfd> polled;
        for (const Line &line : lines_)
            polled.push_back({line.fd(), POLLIN, 0});
        std::size_t open = polled.size();
        while (open > 0) {
            const bool somebodyWaits = !arrived_.empty() || !waiting_.empty();
            if (std::chrono::steady_clock::now() > end || (open < polled.size() && somebodyWaits))
                return false;
            ::poll(polled.data(), polled.size(), 100);
            for (std::size_t i = 0; i < polled.size(); ++i) {
                if (polled[i].fd >= 0 && polled[i].revents != 0 && !serve(lines_[i])) {
                    polled[i].fd = -1;
                    --open;
                }
            }
        }
        return true;
    }

private:
    // False: the rank has ended.
    bool
    serve(const Line &line) {
        try {
            const std::string command = line.receive();
            if (command == "set") {
                const std::string key = line.receive();
                values_[key] = line.receive();
            } else if (command == "remove") {
                values_.erase(line.receive());
            } else if (command == "get") {
                waiting_.emplace_back(line.receive(), line);
            } else {
                arrived_.push_back(line);
            }
        } catch (const std::runtime_error &) {
            return false;
        }
        std::erase_if(waiting_, [this](const auto &asked) {
            const auto found = values_.find(asked.first);
            if (found != values_.end())
                asked.second.send(found->second);
            return found != values_.end();
        });
        if (arrived_.size() == lines_.size()) {
            for (const Line &there : arrived_)
                there.send("all here");
            arrived_.clear();
        }
        return true;
    }

    std::vector<Line> lines_;
    std::map<std::string, std::string> values_;
    std::vector<std::pair<std::string, Line>> waiting_;
    std::vector<Line> arrived_;
};

void
require(bool condition, const std::string &what) {
    if (!condition)
        throw std::runtime_error("not true: " + what);
}

template<typename Call>
void
requireThrows(Call call, const std::string &text) {
    try {
        call();
    } catch (const std::runtime_error &error) {
        require(std::string(error.what()).find(text) != std::string::npos,
                text + " in '" + error.what() + "'");
        return;
    }
    require(false, "it throws: " + text);
}

/// Which way the bytes go: what the environment of the ranks says.
struct Lane {
    const char *name;
    std::map<std::string, std::string> environment;
};

void
PrintTo(const Lane &lane, std::ostream *out) {
    *out << lane.name;
}

class RankClientTest : public testing::TestWithParam<Lane> {
protected:
    /// Plays a rank in each of two processes. What it throws fails the test.
    static void
    play(const std::function<void(int, Store &)> &rank) {
        std::array<std::unique_ptr<ChildProcess>, kRanks> children;
        std::vector<Line> lines;
        for (int i = 0; i < kRanks; ++i) {
            children[i] = std::make_unique<ChildProcess>([&rank, i](Line &line) {
                for (const auto &[name, value] : GetParam().environment)
                    ::setenv(name.c_str(), value.c_str(), 1);
                RemoteStore store(line);
                try {
                    rank(i, store);
                } catch (const std::exception &error) {
                    std::fprintf(stderr, "rank %d: %s\n", i, error.what());
                    throw;
                }
            });
            lines.push_back(children[i]->line());
        }
        const bool ended = StoreServer(lines).run();
        for (int i = 0; i < kRanks; ++i) {
            if (!ended)
                children[i]->signal(SIGKILL);
            const int status = children[i]->wait();
            EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
                << "rank " << i << ": status " << status;
        }
    }
};

/// Memory of a rank: tensors of several sizes, each byte depending on rank, tensor and place.
class Tensors {
public:
    Tensors(int rank, int round) {
        for (const std::size_t size : kSizes) {
            std::string bytes(size, '\0');
            for (std::size_t i = 0; i < size; ++i)
                bytes[i] = byteOf(rank, round, size, i);
            bytes_.push_back(std::move(bytes));
        }
    }

    std::vector<Tensor>
    list() const {
        std::vector<Tensor> all;
        for (const std::string &bytes : bytes_)
            all.push_back({reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size(), 0});
        return all;
    }

    bool operator==(const Tensors &) const = default;

private:
    static constexpr std::array<std::size_t, 4> kSizes{1, 4096, 300'001, 4 << 20};

    static char
    byteOf(int rank, int round, std::size_t size, std::size_t at) {
        return static_cast<char>(((at * 2654435761u) >> 13) + at + size + rank * 101u + round * 17u);
    }

    std::vector<std::string> bytes_;
};

std::string
encoded(const std::vector<Tensor> &tensors) {
    return {reinterpret_cast<const char *>(tensors.data()), tensors.size() * sizeof(Tensor)};
}

std::vector<Tensor>
decoded(const std::string &text) {
    require(text.size() % sizeof(Tensor) == 0, "a whole number of descriptors");
    std::vector<Tensor> tensors(text.size() / sizeof(Tensor));
    text.copy(reinterpret_cast<char *>(tensors.data()), text.size());
    return tensors;
}

/// Tells the other rank where these are, and asks for the same.
std::vector<Tensor>
exchange(Store &store, int rank, const Tensors &mine, const std::string &label) {
    store.set(label + std::to_string(rank), encoded(mine.list()));
    return decoded(store.get(label + std::to_string(1 - rank)));
}

TEST_P(RankClientTest, EachRankReadsFromTheOther) {
    play([](int rank, Store &store) {
        RankClient client(rank, kRanks, DRAM_SEG);
        require(client.available(), "host memory is reached");
        const Tensors source(rank, 1);
        Tensors target(rank, 2);
        client.registerTensors(source.list());
        client.registerTensors(target.list());
        client.exchangeMetadata(store);
        const std::vector<Tensor> there = exchange(store, rank, source, "sources_");
        RankClient::Handle handle = client.prepareTransfer(target.list(), there, 1 - rank, NIXL_READ);
        client.post(handle);
        client.wait(handle);
        require(target == Tensors(1 - rank, 1), "every byte of the other rank has come");
        require(source == Tensors(rank, 1), "what was read is as it was");
        store.barrier([&] { client.progress(); });
    });
}

TEST_P(RankClientTest, ARankWritesAgainAndAgain) {
    play([](int rank, Store &store) {
        constexpr int kRounds = 5;
        RankClient client(rank, kRanks, DRAM_SEG);
        Tensors memory(rank, 0);
        client.registerTensors(memory.list());
        client.exchangeMetadata(store);
        const std::vector<Tensor> there = exchange(store, rank, memory, "memory_");
        RankClient::Handle handle;
        if (rank == 0)
            handle = client.prepareTransfer(memory.list(), there, 1, NIXL_WRITE);
        for (int round = 1; round <= kRounds; ++round) {
            if (rank == 0) {
                const Tensors content(0, round);
                for (std::size_t i = 0; i < there.size(); ++i) {
                    const auto *bytes = reinterpret_cast<const char *>(content.list()[i].addr);
                    std::copy_n(bytes, content.list()[i].size,
                                reinterpret_cast<char *>(memory.list()[i].addr));
                }
                client.post(handle);
                client.wait(handle);
            }
            store.barrier([&] { client.progress(); });
            require(memory == Tensors(0, round), "round " + std::to_string(round) + " is everywhere");
            store.barrier([&] { client.progress(); });
        }
    });
}

TEST_P(RankClientTest, TensorsRegisteredLaterAreExchangedAgain) {
    play([](int rank, Store &store) {
        RankClient client(rank, kRanks, DRAM_SEG);
        const Tensors first(rank, 1);
        client.registerTensors(first.list());
        client.exchangeMetadata(store);
        const Tensors second(rank, 2);
        Tensors target(rank, 3);
        client.registerTensors(second.list());
        client.registerTensors(target.list());
        requireThrows([&] { client.prepareTransfer(target.list(), first.list(), 1 - rank, NIXL_READ); },
                      "not exchanged");
        client.exchangeMetadata(store);
        const std::vector<Tensor> there = exchange(store, rank, second, "second_");
        RankClient::Handle handle = client.prepareTransfer(target.list(), there, 1 - rank, NIXL_READ);
        requireThrows([&] { client.status(handle); }, "not posted");
        client.post(handle);
        requireThrows([&] { client.post(handle); }, "posted");
        client.wait(handle);
        require(target == Tensors(1 - rank, 2), "every byte of the other rank has come");
        store.barrier([&] { client.progress(); });
        client.deregisterTensors(first.list());
    });
}

TEST_P(RankClientTest, MemoryThatIsNoDeviceMemoryMakesItUnavailable) {
    play([](int rank, Store &store) {
        // Taking it for host memory would be the silent error that the probe is for.
        RankClient client(rank, kRanks, VRAM_SEG);
        require(!client.available(), "an address in host memory is not taken for device memory");
        requireThrows([&] { client.registerTensors(Tensors(rank, 1).list()); }, "not available");
        requireThrows([&] { client.exchangeMetadata(store); }, "not available");
    });
}

INSTANTIATE_TEST_SUITE_P(
    Lanes, RankClientTest,
    testing::Values(Lane{"host", {{"UCX_NET_DEVICES", "lo"}}},
                    Lane{"network", {{"UCX_NET_DEVICES", "lo"}, {"UCX_TLS", "tcp"}, {"NIXL_LOCAL", "off"}}}),
    [](const auto &lane) { return std::string(lane.param.name); });

} // namespace
} // namespace nixl::test
