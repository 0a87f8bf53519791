#include "utils/serdes/serdes.h"

#include <algorithm>
#include <cstring>

#include "util/log.h"
#include "wire/serdes_access.h"

using nixl::Reader;
using nixl::SerDesAccess;

nixlSerDes::nixlSerDes() : bytes_(nixl::kContainerPrefix), cursor_(bytes_.size()) {}

nixl_status_t
nixlSerDes::addStr(const std::string &tag, const std::string &str) {
    SerDesAccess::writer(*this).add(tag, str);
    return NIXL_SUCCESS;
}

std::string
nixlSerDes::getStr(const std::string &tag) {
    Reader reader = SerDesAccess::reader(*this);
    const auto payload = reader.take(tag);
    if (!payload.ok()) {
        NIXL_LOG(kError, "nixlSerDes::getStr: ", payload.status().message());
        return {};
    }
    SerDesAccess::advance(*this, reader);
    return std::string(payload.value());
}

nixl_status_t
nixlSerDes::addBuf(const std::string &tag, const void *buf, ssize_t len) {
    if (len < 0 || (len > 0 && !buf)) {
        NIXL_LOG(kError, "nixlSerDes::addBuf: item '", tag, "': ", len, " bytes at ", buf);
        return NIXL_ERR_INVALID_PARAM;
    }
    const std::string_view payload(static_cast<const char *>(buf), static_cast<std::size_t>(len));
    SerDesAccess::writer(*this).add(tag, payload);
    return NIXL_SUCCESS;
}

ssize_t
nixlSerDes::getBufLen(const std::string &tag) const {
    const auto payload = SerDesAccess::reader(*this).peek(tag);
    if (!payload.ok()) {
        NIXL_LOG(kError, "nixlSerDes::getBufLen: ", payload.status().message());
        return -1;
    }
    return static_cast<ssize_t>(payload.value().size());
}

nixl_status_t
nixlSerDes::getBuf(const std::string &tag, void *buf, ssize_t len) {
    if (len < 0 || (len > 0 && !buf)) {
        NIXL_LOG(kError, "nixlSerDes::getBuf: item '", tag, "': ", len, " bytes to ", buf);
        return NIXL_ERR_INVALID_PARAM;
    }
    Reader reader = SerDesAccess::reader(*this);
    const auto payload = reader.take(tag);
    if (!payload.ok()) {
        NIXL_LOG(kError, "nixlSerDes::getBuf: ", payload.status().message());
        return NIXL_ERR_MISMATCH;
    }
    if (payload.value().size() != static_cast<std::size_t>(len)) {
        NIXL_LOG(kError, "nixlSerDes::getBuf: item '", tag, "' has ", payload.value().size(), " bytes, ", len,
                 " were asked for");
        return NIXL_ERR_MISMATCH;
    }
    if (len > 0)
        std::memcpy(buf, payload.value().data(), payload.value().size());
    SerDesAccess::advance(*this, reader);
    return NIXL_SUCCESS;
}

std::string
nixlSerDes::exportStr() const {
    return bytes_;
}

nixl_status_t
nixlSerDes::importStr(const std::string &sdbuf) {
    const auto reader = Reader::open(sdbuf);
    if (!reader.ok()) {
        NIXL_LOG(kError, "nixlSerDes::importStr: ", reader.status().message());
        return NIXL_ERR_MISMATCH;
    }
    bytes_ = sdbuf;
    cursor_ = reader.value().cursor();
    return NIXL_SUCCESS;
}

std::string
nixlSerDes::_bytesToString(const void *buf, ssize_t size) {
    return buf && size > 0 ? std::string(static_cast<const char *>(buf), static_cast<std::size_t>(size))
                           : std::string();
}

void
nixlSerDes::_stringToBytes(void *fill_buf, const std::string &s, ssize_t size) {
    if (!fill_buf || size <= 0)
        return;
    const std::size_t wanted = static_cast<std::size_t>(size);
    const std::size_t copied = std::min(wanted, s.size());
    std::memcpy(fill_buf, s.data(), copied);
    std::memset(static_cast<char *>(fill_buf) + copied, 0, wanted - copied);
}
