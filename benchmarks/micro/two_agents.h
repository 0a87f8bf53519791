// Two agents of one process that know each other, for benchmarks of single calls.
#pragma once

#include <benchmark/benchmark.h>
#include <nixl.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace nixl::bench {

constexpr std::size_t kBlockBytes = 64;

/// Ends the benchmark with the message of the library.
void fail(benchmark::State &state, const char *call);

/// An agent of the same-host backend with nothing registered. Throws std::runtime_error.
class Agent {
public:
    explicit Agent(const std::string &name);

    nixlAgent &
    agent() {
        return agent_;
    }

private:
    nixlAgent agent_;
};

/// Each has memory for `count` blocks with gaps as large as a block, so that nothing is merged.
/// Throws std::runtime_error.
class TwoAgents {
public:
    explicit TwoAgents(std::size_t count);
    ~TwoAgents();

    TwoAgents(const TwoAgents &) = delete;
    TwoAgents &operator=(const TwoAgents &) = delete;

    nixlAgent &
    initiator() {
        return initiator_.agent();
    }

    nixlAgent &
    target() {
        return target_.agent();
    }

    /// How the initiator calls the target.
    [[nodiscard]] const std::string &
    peer() const {
        return peer_;
    }

    [[nodiscard]] std::size_t
    count() const {
        return indices_.size();
    }

    [[nodiscard]] std::uintptr_t
    targetMemory() const {
        return reinterpret_cast<std::uintptr_t>(targetMemory_.data());
    }

    /// 0, 1, ... count() - 1.
    [[nodiscard]] const std::vector<int> &
    indices() const {
        return indices_;
    }

    /// The blocks of memory that starts at `base`.
    [[nodiscard]] nixl_xfer_dlist_t list(std::uintptr_t base) const;

    /// A WRITE of these blocks; nullptr if it cannot be made. The caller releases it.
    [[nodiscard]] nixlXferReqH *make(const std::vector<int> &indices);

private:
    std::vector<std::byte> initiatorMemory_, targetMemory_;
    std::vector<int> indices_;
    Agent initiator_, target_;
    std::string peer_;
    nixlDlistH *local_ = nullptr, *remote_ = nullptr;
};

} // namespace nixl::bench
