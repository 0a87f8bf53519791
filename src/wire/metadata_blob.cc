#include "wire/metadata_blob.h"

#include <cstring>
#include <utility>

#include "util/log.h"
#include "wire/container.h"
#include "wire/desc_list.h"

namespace nixl {

namespace {

constexpr std::string_view kAgentTag = "Agent";
constexpr std::string_view kConnectionCountTag = "Conns";
constexpr std::string_view kConnectionBackendTag = "t";
constexpr std::string_view kConnectionInfoTag = "c";
constexpr std::string_view kMarkerTag = "";
constexpr std::string_view kMarker = "MemSection";
constexpr std::string_view kSectionCountTag = "nixlSecElms";
constexpr std::string_view kSectionBackendTag = "bknd";
constexpr std::string_view kExtensionTag = "nixl-open";

constexpr std::uint8_t kExtensionVersion = 1;
constexpr std::uint8_t kFullFlag = 1;

// The extension's payload up to the keys.
struct ExtensionHead {
    std::uint8_t version;
    std::uint8_t flags;
    std::uint8_t reserved[6];
    Incarnation incarnation;
    std::uint64_t epoch;
    std::uint64_t keyCount;
};

static_assert(sizeof(ExtensionHead) == 40 && std::is_trivially_copyable_v<ExtensionHead>,
              "the head is written as it lies in memory");

std::size_t
descriptorCount(const std::vector<MetadataSection> &sections) {
    std::size_t count = 0;
    for (const MetadataSection &section : sections)
        count += static_cast<std::size_t>(section.descs.descCount());
    return count;
}

void
appendExtension(Writer &writer, const MetadataExtension &extension) {
    ExtensionHead head{};
    head.version = kExtensionVersion;
    head.flags = extension.full ? kFullFlag : 0;
    head.incarnation = extension.incarnation;
    head.epoch = extension.epoch;
    head.keyCount = extension.keys.size();
    writer.add(kExtensionTag, {reinterpret_cast<const char *>(&head), sizeof(head)},
               {reinterpret_cast<const char *>(extension.keys.data()),
                extension.keys.size() * sizeof(std::uint64_t)});
}

Result<MetadataExtension>
takeExtension(Reader &reader, std::size_t descriptors) {
    const auto item = reader.take(kExtensionTag);
    if (!item.ok())
        return item.status();
    std::string_view payload = item.value();
    ExtensionHead head;
    if (payload.empty() || static_cast<std::uint8_t>(payload[0]) != kExtensionVersion)
        return Status::error(NIXL_ERR_MISMATCH, "unknown version of the extension");
    if (payload.size() < sizeof(head))
        return Status::error(NIXL_ERR_MISMATCH, "the extension has only ", payload.size(), " bytes");
    std::memcpy(&head, payload.data(), sizeof(head));
    payload.remove_prefix(sizeof(head));
    if (head.keyCount != 0 && head.keyCount != descriptors)
        return Status::error(NIXL_ERR_MISMATCH, head.keyCount, " keys for ", descriptors, " descriptors");
    if (head.keyCount > payload.size() / sizeof(std::uint64_t))
        return Status::error(NIXL_ERR_MISMATCH, head.keyCount, " keys in ", payload.size(), " bytes");

    MetadataExtension extension;
    extension.incarnation = head.incarnation;
    extension.epoch = head.epoch;
    extension.full = (head.flags & kFullFlag) != 0;
    extension.keys.resize(head.keyCount);
    if (head.keyCount > 0)
        std::memcpy(extension.keys.data(), payload.data(), head.keyCount * sizeof(std::uint64_t));
    return extension;
}

Result<std::string>
takeNonEmpty(Reader &reader, std::string_view tag, std::string_view what) {
    const auto payload = reader.take(tag);
    if (!payload.ok())
        return payload.status();
    if (payload.value().empty())
        return Status::error(NIXL_ERR_MISMATCH, what, " is empty");
    return std::string(payload.value());
}

Status
takeConnections(Reader &reader, std::vector<ConnectionEntry> &connections) {
    constexpr std::size_t kLeast =
        kConnectionBackendTag.size() + kConnectionInfoTag.size() + 2 * kItemOverhead + 2;
    const auto count = reader.takeCount(kConnectionCountTag, kLeast);
    if (!count.ok())
        return count.status();
    for (std::size_t i = 0; i < count.value(); ++i) {
        auto backend = takeNonEmpty(reader, kConnectionBackendTag, "the engine's name");
        if (!backend.ok())
            return backend.status().withContext(concat("connection ", i));
        auto info = takeNonEmpty(reader, kConnectionInfoTag, "the connection information");
        if (!info.ok())
            return info.status().withContext(concat("connection ", i));
        connections.push_back({std::move(backend).value(), std::move(info).value()});
    }
    return {};
}

Result<MetadataSection>
takeSection(Reader &reader) {
    const auto backend = reader.take(kSectionBackendTag);
    if (!backend.ok())
        return backend.status();
    if (backend.value().empty())
        return Status::error(NIXL_ERR_INVALID_PARAM, "the engine's name is empty");
    auto descs = takeRegList(reader);
    if (!descs.ok())
        return descs.status();
    if (descs.value().isEmpty())
        return Status::error(NIXL_ERR_NOT_FOUND, "there is no descriptor in it");
    return MetadataSection{std::string(backend.value()), std::move(descs).value()};
}

Status
takeSections(Reader &reader, std::vector<MetadataSection> &sections) {
    const auto marker = reader.take(kMarkerTag);
    if (!marker.ok())
        return marker.status();
    if (marker.value() != kMarker)
        return Status::error(NIXL_ERR_MISMATCH, "'", kMarker, "' is missing behind the connections");
    const std::size_t least = kSectionBackendTag.size() + kItemOverhead + leastListBytes();
    const auto count = reader.takeCount(kSectionCountTag, least);
    if (!count.ok())
        return count.status();
    for (std::size_t i = 0; i < count.value(); ++i) {
        auto section = takeSection(reader);
        if (!section.ok())
            return section.status().withContext(concat("section ", i));
        sections.push_back(std::move(section).value());
    }
    return {};
}

} // namespace

std::string
encodeMetadata(const MetadataBlob &blob) {
    std::string bytes(kContainerPrefix);
    Writer writer(bytes);
    writer.add(kAgentTag, blob.agent);
    writer.addU64(kConnectionCountTag, blob.connections.size());
    for (const ConnectionEntry &connection : blob.connections) {
        writer.add(kConnectionBackendTag, connection.backend);
        writer.add(kConnectionInfoTag, connection.info);
    }
    writer.add(kMarkerTag, kMarker);
    writer.addU64(kSectionCountTag, blob.sections.size());
    for (const MetadataSection &section : blob.sections) {
        writer.add(kSectionBackendTag, section.backend);
        appendList(writer, section.descs);
    }
    if (blob.extension)
        appendExtension(writer, *blob.extension);
    return bytes;
}

Result<MetadataBlob>
decodeMetadata(std::string_view bytes) {
    auto reader = Reader::open(bytes);
    if (!reader.ok())
        return reader.status();
    MetadataBlob blob;
    auto agent = takeNonEmpty(reader.value(), kAgentTag, "the agent's name");
    if (!agent.ok())
        return agent.status();
    blob.agent = std::move(agent).value();
    NIXL_RETURN_IF_ERROR(takeConnections(reader.value(), blob.connections));
    NIXL_RETURN_IF_ERROR(takeSections(reader.value(), blob.sections));
    if (reader.value().remaining() == 0)
        return blob;
    auto extension = takeExtension(reader.value(), descriptorCount(blob.sections));
    if (extension.ok())
        blob.extension = std::move(extension).value();
    else
        NIXL_LOG(kDebug, "metadata of ", blob.agent,
                 ": trailing bytes ignored: ", extension.status().message());
    return blob;
}

} // namespace nixl
