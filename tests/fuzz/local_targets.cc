#include <sys/socket.h>

#include <array>
#include <string>

#include "engines/local/protocol.h"
#include "fuzz/promise.h"
#include "fuzz/targets.h"

namespace nixl::fuzz {

namespace {

using namespace local;

/// A payload that is accepted is what the encoder would have written.
template<typename T, typename Encode>
void
checkPayload(const Result<T> &decoded, const std::string &payload, Encode encode) {
    if (!decoded.ok()) {
        require(decoded.status().code() == NIXL_ERR_MISMATCH && !decoded.status().message().empty(),
                "an error has a code and a message");
        return;
    }
    require(encode(decoded.value()).substr(kHeaderBytes) == payload, "nothing is left or invented");
}

void
checkFrame(const Frame &frame) {
    const std::string &payload = frame.payload;
    switch (frame.type) {
    case FrameType::kHello:
        checkPayload(decodeHello(payload), payload, encodeHello);
        break;
    case FrameType::kWelcome:
        checkPayload(decodeWelcome(payload), payload, encodeWelcome);
        break;
    case FrameType::kAskMemory:
        checkPayload(decodeMemoryId(payload), payload, encodeAskMemory);
        break;
    case FrameType::kMemory:
        checkPayload(decodeMemory(payload), payload, encodeMemory);
        break;
    case FrameType::kMemoryEnded:
        checkPayload(decodeMemoryId(payload), payload, encodeMemoryEnded);
        break;
    case FrameType::kFailed:
        checkPayload(decodeFailed(payload), payload,
                     [](const FailedTransfer &failed) { return encodeFailed(failed.message, failed.why); });
        break;
    default:
        break;
    }
}

} // namespace

void
localFrames(std::string_view bytes) {
    std::array<int, 2> ends{};
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0,
            "there are sockets");
    const ScopedFd in(ends[0]);
    ScopedFd out(ends[1]);
    const std::size_t sent = sendSome(out.get(), std::array{bytes}).bytes;
    out.reset();
    FrameReader reader;
    std::size_t taken = 0;
    for (IoState io = IoState::kDone; io != IoState::kClosed;) {
        io = reader.readOnce(in.get());
        for (Frame frame{};;) {
            const auto complete = reader.next(frame);
            if (!complete.ok())
                return;
            if (!complete.value())
                break;
            taken += kHeaderBytes + frame.payload.size();
            require(taken <= sent, "no byte is read twice");
            checkFrame(frame);
        }
    }
}

} // namespace nixl::fuzz
