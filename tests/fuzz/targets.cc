#include "fuzz/targets.h"

#include <string>

#include "fuzz/promise.h"
#include "util/log.h"
#include "utils/serdes/serdes.h"
#include "wire/desc_list.h"
#include "wire/metadata_blob.h"
#include "wire/pickle_reader.h"

namespace nixl::fuzz {

namespace {

/// Parsers log what they refuse; nobody reads a million such lines.
class QuietLog {
public:
    QuietLog() : former_(logLevel()) {
        setLogLevel(LogLevel::kFatal);
    }

    ~QuietLog() {
        setLogLevel(former_);
    }

    QuietLog(const QuietLog &) = delete;
    QuietLog &operator=(const QuietLog &) = delete;

private:
    LogLevel former_;
};

void
requireCause(const Status &status) {
    require(status.code() < 0 && !status.message().empty(), "an error has a code and a message");
}

template<typename List, typename Parse>
void
checkList(std::string_view bytes, Parse parse) {
    const Result<List> list = parse(bytes);
    nixlSerDes serdes;
    const bool imported = serdes.importStr(std::string(bytes)) == NIXL_SUCCESS;
    const List constructed(imported ? &serdes : nullptr);
    if (!list.ok()) {
        requireCause(list.status());
        require(constructed.isEmpty() && constructed.getType() == DRAM_SEG, "a bad list is empty");
        return;
    }
    require(static_cast<std::size_t>(list.value().descCount()) * 24 <= bytes.size(),
            "no descriptor is invented");
    require(constructed == list.value(), "both readers agree");
    const std::string again = serializeList(list.value());
    const auto reread = parse(again);
    require(reread.ok() && reread.value() == list.value(), "a list survives writing and reading");
}

// Reads items with tags that formats use until none of them is next.
void
checkItems(std::string_view bytes) {
    nixlSerDes serdes;
    if (serdes.importStr(std::string(bytes)) != NIXL_SUCCESS)
        return;
    nixlSerDes copy;
    for (bool moved = true; moved;) {
        moved = false;
        for (const char *tag : {"Agent", "Conns", "nixlDList", "bknd", "name", "msg", "t", "c", "n", ""}) {
            const ssize_t length = serdes.getBufLen(tag);
            require(length >= -1 && length <= static_cast<ssize_t>(bytes.size()),
                    "a length fits the container");
            if (length < 0)
                continue;
            std::string payload(static_cast<std::size_t>(length) + 1, '\0');
            require(serdes.getBuf(tag, payload.data(), length + 1) == NIXL_ERR_MISMATCH, "lengths are exact");
            nixlSerDes twin = serdes;
            require(serdes.getBuf(tag, payload.data(), length) == NIXL_SUCCESS,
                    "what getBufLen shows can be read");
            payload.pop_back();
            require(twin.getStr(tag) == payload, "strings and buffers are the same");
            copy.addStr(tag, payload);
            moved = true;
        }
    }
    require(copy.exportStr().size() <= bytes.size(), "nothing is read twice");
    require(serdes.exportStr() == bytes, "reading changes nothing");
}

} // namespace

void
serdes(std::string_view bytes) {
    const QuietLog quiet;
    checkItems(bytes);
    checkList<nixl_xfer_dlist_t>(bytes, parseXferList);
    checkList<nixl_reg_dlist_t>(bytes, parseRegList);
}

void
metadataBlob(std::string_view bytes) {
    const QuietLog quiet;
    const auto blob = decodeMetadata(bytes);
    if (!blob.ok()) {
        requireCause(blob.status());
        return;
    }
    for (const MetadataSection &section : blob.value().sections)
        require(!section.descs.isEmpty() && !section.backend.empty(), "a section has a name and descriptors");
    const std::string again = encodeMetadata(blob.value());
    require(again.size() <= bytes.size(), "nothing is invented");
    const auto reread = decodeMetadata(again);
    require(reread.ok() && encodeMetadata(reread.value()) == again, "a blob survives writing and reading");
    require(reread.value().extension.has_value() == blob.value().extension.has_value(),
            "the extension survives");
}

void
pickle(std::string_view bytes) {
    const QuietLog quiet;
    const auto list = readPickledList(bytes);
    if (!list.ok()) {
        requireCause(list.status());
        return;
    }
    require(list.value().state.size() < bytes.size(), "nothing is invented");
    const std::string again = writePickledList(list.value().kind, list.value().state);
    const auto reread = readPickledList(again);
    require(reread.ok() && reread.value().kind == list.value().kind &&
                reread.value().state == list.value().state,
            "a pickle survives writing and reading");
    if (list.value().kind == PickledKind::kXferList)
        checkList<nixl_xfer_dlist_t>(list.value().state, parseXferList);
    else
        checkList<nixl_reg_dlist_t>(list.value().state, parseRegList);
}

} // namespace nixl::fuzz
