// How a telemetry buffer file comes into being without harming what lies in its directory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "telemetry/exporters/buffer_layout.h"
#include "util/status.h"

namespace nixl {

/// The agent's name as one component of a path. Ordinary names stay as they are; '/' and NUL, and the dots of
/// "." and "..", become %XX, and so does a '%' in front of two hexadecimal digits, so that different names
/// stay different. NIXL_ERR_INVALID_PARAM: empty, or too long for a file name.
Result<std::string> bufferFileName(std::string_view agentName);

/// A new, empty buffer that belongs to this process until it is destroyed.
struct BufferFile {
    BufferMapping mapping;
    std::string path;
};

/**
 * Creates DIRECTORY/NAME of `capacity` slots (a power of two), complete before it gets its name.
 *
 * Takes the place of a buffer that an agent of this user left behind. If a live agent holds the name, in this
 * or another process, the file is called NAME.2, NAME.3 and so on. Symbolic links, files of other users and
 * files that are not telemetry buffers are neither followed nor touched. The space is allocated at once, so
 * that a disk that fills up later cannot kill the writer.
 *
 * NIXL_ERR_BACKEND with the path and the reason.
 */
Result<BufferFile> createBufferFile(const std::string &directory, const std::string &name,
                                    std::uint64_t capacity);

} // namespace nixl
