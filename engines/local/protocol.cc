#include "engines/local/protocol.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace nixl::local {

namespace {

constexpr std::uint32_t kMagic = 0x4c58494e; // "NIXL"
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kMaxDescriptors = 4; // more than any frame brings
constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::size_t kMaxReadBytes = 256 << 10;

/// Both ends are on one machine: numbers go in its own byte order.
class Writer {
public:
    template<typename T>
    Writer &
    add(const T &value) {
        static_assert(std::is_trivially_copyable_v<T>);
        bytes_.append(reinterpret_cast<const char *>(&value), sizeof value);
        return *this;
    }

    Writer &
    addText(std::string_view text) {
        add(static_cast<std::uint32_t>(text.size()));
        bytes_.append(text);
        return *this;
    }

    std::string
    take() {
        return std::move(bytes_);
    }

private:
    std::string bytes_;
};

/// Reads what Writer wrote; the first field that does not fit makes it fail for good.
class Reader {
public:
    explicit Reader(std::string_view bytes) : bytes_(bytes) {}

    template<typename T>
    Reader &
    get(T &value) {
        if (failed_ || bytes_.size() < sizeof value) {
            failed_ = true;
            return *this;
        }
        std::memcpy(&value, bytes_.data(), sizeof value);
        bytes_.remove_prefix(sizeof value);
        return *this;
    }

    Reader &
    getText(std::string &text) {
        std::uint32_t size = 0;
        get(size);
        if (failed_ || size > kMaxNameBytes || bytes_.size() < size) {
            failed_ = true;
            return *this;
        }
        text.assign(bytes_.substr(0, size));
        bytes_.remove_prefix(size);
        return *this;
    }

    /// Takes all that is left. False: something before it was missing.
    bool
    getRest(std::string &bytes) {
        if (!failed_)
            bytes.assign(std::exchange(bytes_, {}));
        return !failed_;
    }

    /// Everything was there, and nothing else.
    bool
    complete() const {
        return !failed_ && bytes_.empty();
    }

private:
    std::string_view bytes_;
    bool failed_ = false;
};

std::string
frame(FrameType type, const std::string &payload) {
    return frameHeader(type, payload.size()) + payload;
}

} // namespace

std::string
encodeConnectionInfo(const ConnectionInfo &info) {
    const HostHints &hints = info.hints;
    return Writer()
        .add(kMagic)
        .add(kVersion)
        .add(std::uint16_t{0})
        .add(info.incarnation)
        .add(hints.bootId)
        .add(hints.pidNamespace)
        .add(hints.netNamespace)
        .add(hints.pid)
        .add(info.revision)
        .take();
}

Result<ConnectionInfo>
decodeConnectionInfo(std::string_view bytes) {
    std::uint32_t magic = 0;
    std::uint16_t version = 0;
    std::uint16_t zero = 0;
    ConnectionInfo info;
    HostHints &hints = info.hints;
    Reader reader(bytes);
    reader.get(magic).get(version).get(zero).get(info.incarnation).get(hints.bootId);
    reader.get(hints.pidNamespace).get(hints.netNamespace).get(hints.pid).get(info.revision);
    if (magic != kMagic)
        return Status::error(NIXL_ERR_MISMATCH, "not connection info of LOCAL");
    if (version != kVersion)
        return Status::error(NIXL_ERR_MISMATCH, "connection info of version ", version,
                             ", this LOCAL reads version ", kVersion);
    if (!reader.complete() || zero != 0)
        return Status::error(NIXL_ERR_MISMATCH, "malformed connection info of ", bytes.size(), " bytes");
    return info;
}

std::string
encodeRegionKey(RegionKey key) {
    return Writer().add(key.slot).add(std::uint32_t{0}).add(key.key).take();
}

Result<RegionKey>
decodeRegionKey(std::string_view bytes) {
    RegionKey key;
    std::uint32_t zero = 0;
    Reader reader(bytes);
    reader.get(key.slot).get(zero).get(key.key);
    if (!reader.complete() || zero != 0 || key.slot >= TableLayout::kSlots || key.key == 0)
        return Status::error(NIXL_ERR_MISMATCH, "malformed region data of ", bytes.size(), " bytes");
    return key;
}

std::string
socketName(const Incarnation &incarnation) {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string name = "nixl-local-";
    for (const std::uint8_t byte : incarnation) {
        name += kDigits[byte >> 4];
        name += kDigits[byte & 15];
    }
    return name;
}

std::string
frameHeader(FrameType type, std::uint64_t length) {
    return Writer().add(kMagic).add(kVersion).add(type).add(length).take();
}

std::string
encodeHello(const Hello &hello) {
    Writer writer;
    writer.add(hello.target).add(hello.incarnation).add(hello.challenge).add(hello.token);
    writer.add(hello.tokenAddress).addText(hello.agent);
    if (hello.revision > 0)
        writer.add(hello.revision);
    return frame(FrameType::kHello, writer.take());
}

Result<Hello>
decodeHello(std::string_view payload) {
    Hello hello;
    Reader reader(payload);
    reader.get(hello.target).get(hello.incarnation).get(hello.challenge).get(hello.token);
    reader.get(hello.tokenAddress).getText(hello.agent);
    const bool old = reader.complete();
    if (!old && (!reader.get(hello.revision).complete() || hello.revision == 0))
        return Status::error(NIXL_ERR_MISMATCH, "malformed hello of ", payload.size(), " bytes");
    return hello;
}

std::string
encodeWelcome(const Welcome &welcome) {
    Writer writer;
    writer.add(welcome.incarnation).add(welcome.challengeAddress).addText(welcome.agent);
    if (welcome.revision > 0)
        writer.add(welcome.revision).add(welcome.slot);
    return frame(FrameType::kWelcome, writer.take());
}

Result<Welcome>
decodeWelcome(std::string_view payload) {
    Welcome welcome;
    Reader reader(payload);
    reader.get(welcome.incarnation).get(welcome.challengeAddress).getText(welcome.agent);
    const bool old = reader.complete();
    if (!old && (!reader.get(welcome.revision).get(welcome.slot).complete() || welcome.revision == 0))
        return Status::error(NIXL_ERR_MISMATCH, "malformed welcome of ", payload.size(), " bytes");
    if (welcome.slot != kNoSlot && welcome.slot >= TableLayout::kSlots)
        return Status::error(NIXL_ERR_MISMATCH, "a welcome with slot ", welcome.slot);
    return welcome;
}

std::string
encodeRefuse(std::string_view reason) {
    return frame(FrameType::kRefuse, std::string(reason));
}

std::string
encodeAskMemory(std::uint64_t id) {
    return frame(FrameType::kAskMemory, Writer().add(id).take());
}

std::string
encodeMemory(const LentPiece &piece) {
    return frame(FrameType::kMemory,
                 Writer().add(piece.id).add(piece.address).add(piece.length).add(piece.offset).take());
}

std::string
encodeMemoryEnded(std::uint64_t id) {
    return frame(FrameType::kMemoryEnded, Writer().add(id).take());
}

Result<std::uint64_t>
decodeMemoryId(std::string_view payload) {
    std::uint64_t id = 0;
    Reader reader(payload);
    if (!reader.get(id).complete() || id == 0)
        return Status::error(NIXL_ERR_MISMATCH, "malformed name of memory, ", payload.size(), " bytes");
    return id;
}

Result<LentPiece>
decodeMemory(std::string_view payload) {
    LentPiece piece;
    Reader reader(payload);
    reader.get(piece.id).get(piece.address).get(piece.length).get(piece.offset);
    if (!reader.complete() || piece.id == 0 || piece.address + piece.length < piece.address)
        return Status::error(NIXL_ERR_MISMATCH, "malformed description of memory, ", payload.size(),
                             " bytes");
    return piece;
}

std::string
encodeFailed(std::string_view message, std::string_view why) {
    std::string payload = Writer().addText(why.substr(0, kMaxReasonBytes)).take();
    return frame(FrameType::kFailed, payload.append(message));
}

Result<FailedTransfer>
decodeFailed(std::string_view payload) {
    FailedTransfer failed;
    Reader reader(payload);
    reader.getText(failed.why);
    if (!reader.getRest(failed.message) || failed.why.size() > kMaxReasonBytes)
        return Status::error(NIXL_ERR_MISMATCH, "malformed word of a failed transfer, ", payload.size(),
                             " bytes");
    return failed;
}

IoState
FrameReader::readOnce(int socket) {
    if (start_ > 0 && start_ >= buffer_.size() / 2) {
        buffer_.erase(0, start_);
        start_ = 0;
    }
    const std::size_t have = buffer_.size();
    const std::size_t room = std::clamp(have - start_, kReadBytes, kMaxReadBytes);
    buffer_.resize(have + room);
    const IoResult result = receiveSome(socket, buffer_.data() + have, room, fds);
    buffer_.resize(have + result.bytes);
    if (fds.size() > kMaxDescriptors)
        fds.resize(kMaxDescriptors);
    return result.state;
}

Result<bool>
FrameReader::next(Frame &frame) {
    const std::string_view rest = std::string_view(buffer_).substr(start_);
    if (rest.size() < kHeaderBytes)
        return false;
    std::uint32_t magic = 0;
    std::uint16_t version = 0;
    std::uint64_t length = 0;
    Reader(rest.substr(0, kHeaderBytes)).get(magic).get(version).get(frame.type).get(length);
    if (magic != kMagic || version != kVersion)
        return Status::error(NIXL_ERR_MISMATCH, "bytes that are no frame of version ", kVersion);
    const std::uint64_t beside = frame.type == FrameType::kFailed ? kMaxReasonBytes + 4 : 0;
    if (length > limit_ + beside)
        return Status::error(NIXL_ERR_MISMATCH, "a frame of ", length, " bytes; at most ", limit_,
                             " are accepted");
    if (rest.size() - kHeaderBytes < length)
        return false;
    frame.payload.assign(rest.substr(kHeaderBytes, static_cast<std::size_t>(length)));
    start_ += kHeaderBytes + static_cast<std::size_t>(length);
    if (start_ == buffer_.size()) {
        buffer_.clear();
        start_ = 0;
        if (buffer_.capacity() > kMaxReadBytes)
            buffer_.shrink_to_fit();
    }
    return true;
}

} // namespace nixl::local
