// Reads events from the shared-memory file of an agent, in this or another process.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "telemetry/exporters/buffer_layout.h"
#include "util/status.h"

namespace nixl {

/// Takes events out of the ring; several readers share them. Never removes, resizes or rebuilds a file: one
/// that it does not understand belongs to somebody else. One thread at a time.
class BufferReader {
public:
    /// NIXL_ERR_NOT_FOUND: no such file, or it may not be read and written. NIXL_ERR_MISMATCH: it is no
    /// regular file, or no telemetry buffer of this version.
    static Result<BufferReader> open(const std::string &path);

    /// Moves the oldest events to `events` and returns how many; 0: there are none. NIXL_ERR_MISMATCH: the
    /// file was cut, or its positions are no slots of it.
    Result<std::size_t> pop(std::span<nixlTelemetryEvent> events);

    std::uint64_t
    capacity() const {
        return capacity_;
    }

private:
    BufferReader(BufferMapping mapping, std::string path, std::uint64_t capacity)
        : mapping_(std::move(mapping)), path_(std::move(path)), capacity_(capacity) {}

    BufferMapping mapping_;
    std::string path_;
    std::uint64_t capacity_;
};

} // namespace nixl
