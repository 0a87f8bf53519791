#include "wire/desc_list.h"

#include <cstring>
#include <limits>
#include <type_traits>

namespace nixl {

namespace {

constexpr std::string_view kKindTag = "nixlDList";
constexpr std::string_view kMemoryTag = "t";
constexpr std::string_view kCountTag = "n";
constexpr std::string_view kElementsTag = "";
constexpr std::string_view kBasicKind = "nixlBDList";
constexpr std::string_view kSectionKind = "nixlSDList";
constexpr std::size_t kDescBytes = 24;

static_assert(sizeof(nixlBasicDesc) == kDescBytes && std::is_trivially_copyable_v<nixlBasicDesc>,
              "a descriptor is written as it lies in memory");

std::string_view
bytesOf(const nixlBasicDesc *descs, std::size_t count) {
    return {reinterpret_cast<const char *>(descs), count * kDescBytes};
}

void
appendHeader(Writer &writer, std::string_view kind, nixl_mem_t memory, std::size_t count) {
    writer.add(kKindTag, kind);
    writer.addI32(kMemoryTag, memory);
    writer.addU64(kCountTag, count);
}

struct Header {
    nixl_mem_t memory;
    std::size_t count;
};

Result<Header>
takeHeader(Reader &reader, std::string_view expectedKind, std::size_t leastElementBytes) {
    const auto kind = reader.take(kKindTag);
    if (!kind.ok())
        return kind.status();
    if (kind.value() != expectedKind)
        return Status::error(NIXL_ERR_MISMATCH, "the list is not of kind ", expectedKind);
    const auto memory = reader.takeI32(kMemoryTag);
    if (!memory.ok())
        return memory.status();
    if (memory.value() < DRAM_SEG || memory.value() > FILE_SEG)
        return Status::error(NIXL_ERR_MISMATCH, "the list is of unknown memory ", memory.value());
    const auto count = reader.takeCount(kCountTag, leastElementBytes);
    if (!count.ok())
        return count.status();
    if (count.value() > std::size_t{std::numeric_limits<int>::max()})
        return Status::error(NIXL_ERR_MISMATCH, "the list has ", count.value(), " descriptors, too many");
    return Header{static_cast<nixl_mem_t>(memory.value()), count.value()};
}

} // namespace

std::size_t
leastListBytes() {
    return kKindTag.size() + kBasicKind.size() + kMemoryTag.size() + sizeof(std::int32_t) + kCountTag.size() +
           sizeof(std::uint64_t) + 3 * kItemOverhead;
}

void
appendList(Writer &writer, const nixl_xfer_dlist_t &list) {
    const auto count = static_cast<std::size_t>(list.descCount());
    writer.expect(leastListBytes() + count * kDescBytes + kItemOverhead);
    appendHeader(writer, kBasicKind, list.getType(), count);
    if (count > 0)
        writer.add(kElementsTag, bytesOf(&list[0], count));
}

void
appendList(Writer &writer, const nixl_reg_dlist_t &list) {
    const auto count = static_cast<std::size_t>(list.descCount());
    writer.expect(leastListBytes() + count * (kDescBytes + kItemOverhead));
    appendHeader(writer, kSectionKind, list.getType(), count);
    for (const nixlBlobDesc &desc : list)
        writer.add(kElementsTag, bytesOf(&desc, 1), desc.metaInfo);
}

Result<nixl_xfer_dlist_t>
takeXferList(Reader &reader) {
    const auto header = takeHeader(reader, kBasicKind, kDescBytes);
    if (!header.ok())
        return header.status();
    nixl_xfer_dlist_t list(header.value().memory);
    const std::size_t count = header.value().count;
    if (count == 0)
        return list;
    const auto elements = reader.take(kElementsTag);
    if (!elements.ok())
        return elements.status();
    if (elements.value().size() != count * kDescBytes)
        return Status::error(NIXL_ERR_MISMATCH, count, " descriptors take ", count * kDescBytes,
                             " bytes, not ", elements.value().size());
    list.resize(count);
    // The destination is an array of trivially copyable descriptors of exactly that size.
    std::memcpy(static_cast<void *>(&list[0]), elements.value().data(), elements.value().size());
    return list;
}

Result<nixl_reg_dlist_t>
takeRegList(Reader &reader) {
    const auto header = takeHeader(reader, kSectionKind, kDescBytes + kItemOverhead);
    if (!header.ok())
        return header.status();
    nixl_reg_dlist_t list(header.value().memory);
    list.reserve(header.value().count);
    for (std::size_t i = 0; i < header.value().count; ++i) {
        const auto element = reader.take(kElementsTag);
        if (!element.ok())
            return element.status().withContext(concat("descriptor ", i));
        if (element.value().size() < kDescBytes)
            return Status::error(NIXL_ERR_MISMATCH, "descriptor ", i, " has ", element.value().size(),
                                 " bytes, fewer than ", kDescBytes);
        nixlBlobDesc &desc = list.emplace();
        std::memcpy(&desc.addr, element.value().data(), sizeof(desc.addr));
        std::memcpy(&desc.len, element.value().data() + 8, sizeof(desc.len));
        std::memcpy(&desc.devId, element.value().data() + 16, sizeof(desc.devId));
        desc.metaInfo = element.value().substr(kDescBytes);
    }
    return list;
}

std::string
serializeList(const nixl_xfer_dlist_t &list) {
    std::string bytes(kContainerPrefix);
    Writer writer(bytes);
    appendList(writer, list);
    return bytes;
}

std::string
serializeList(const nixl_reg_dlist_t &list) {
    std::string bytes(kContainerPrefix);
    Writer writer(bytes);
    appendList(writer, list);
    return bytes;
}

Result<nixl_xfer_dlist_t>
parseXferList(std::string_view bytes) {
    auto reader = Reader::open(bytes);
    return reader.ok() ? takeXferList(reader.value()) : reader.status();
}

Result<nixl_reg_dlist_t>
parseRegList(std::string_view bytes) {
    auto reader = Reader::open(bytes);
    return reader.ok() ? takeRegList(reader.value()) : reader.status();
}

} // namespace nixl
