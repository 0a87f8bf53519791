// Bytes for the tests of this folder, put together by hand, apart from the code under test.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>

#include "wire/metadata_blob.h"

namespace nixl::test {

inline const std::string kPrefix = "nixlSerDes|";

inline std::string
u64(std::uint64_t value) {
    std::string bytes;
    for (int i = 0; i < 8; ++i)
        bytes += static_cast<char>(value >> (8 * i) & 0xff);
    return bytes;
}

inline std::string
i32(std::uint32_t value) {
    return u64(value).substr(0, 4);
}

/// An item whose length field says `length`.
inline std::string
itemOfLength(const std::string &tag, std::uint64_t length, const std::string &payload) {
    return tag + u64(length) + payload + "|";
}

inline std::string
item(const std::string &tag, const std::string &payload) {
    return itemOfLength(tag, payload.size(), payload);
}

inline std::string
desc(std::uint64_t addr, std::uint64_t len, std::uint64_t devId) {
    return u64(addr) + u64(len) + u64(devId);
}

/// The items before the elements of a list.
inline std::string
listHead(const std::string &kind, std::uint32_t memory, std::uint64_t count) {
    return item("nixlDList", kind) + item("t", i32(memory)) + item("n", u64(count));
}

inline std::string
readFile(const std::filesystem::path &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The regular files of a folder below tests/, by name.
inline std::map<std::string, std::string>
readFolder(const std::string &folder) {
    std::map<std::string, std::string> files;
    for (const auto &entry :
         std::filesystem::directory_iterator(std::filesystem::path(NIXL_TESTS_FOLDER) / folder))
        if (entry.is_regular_file())
            files[entry.path().filename()] = readFile(entry.path());
    return files;
}

/// A blob in which everything occurs: two connections, two sections, three descriptors, an extension.
inline MetadataBlob
sampleBlob() {
    MetadataBlob blob;
    blob.agent = std::string("agent\0x", 7);
    blob.connections = {{"UCX", std::string("\x00\xff|t", 4)}, {"LOCAL", "socket"}};
    MetadataSection host{"UCX", nixl_reg_dlist_t(DRAM_SEG)};
    host.descs.addDesc(nixlBlobDesc(0x1000, 64, 0, "key1"));
    host.descs.addDesc(nixlBlobDesc(0x2000, 128, 0, ""));
    MetadataSection device{"UCX", nixl_reg_dlist_t(VRAM_SEG)};
    device.descs.addDesc(nixlBlobDesc(~0ull - 4095, 4095, 7, "key3"));
    blob.sections = {host, device};
    MetadataExtension extension;
    for (std::size_t i = 0; i < extension.incarnation.size(); ++i)
        extension.incarnation[i] = static_cast<std::uint8_t>(0xa0 + i);
    extension.epoch = 0x0102030405060708;
    extension.full = true;
    extension.keys = {11, ~0ull, 33};
    blob.extension = extension;
    return blob;
}

/// sampleBlob() in bytes, by hand, up to the extension.
inline std::string
sampleBytes() {
    return kPrefix + item("Agent", std::string("agent\0x", 7)) + item("Conns", u64(2)) + item("t", "UCX") +
           item("c", std::string("\x00\xff|t", 4)) + item("t", "LOCAL") + item("c", "socket") +
           item("", "MemSection") + item("nixlSecElms", u64(2)) + item("bknd", "UCX") +
           listHead("nixlSDList", 0, 2) + item("", desc(0x1000, 64, 0) + "key1") +
           item("", desc(0x2000, 128, 0)) + item("bknd", "UCX") + listHead("nixlSDList", 1, 1) +
           item("", desc(~0ull - 4095, 4095, 7) + "key3");
}

/// The payload of sampleBlob()'s extension, by hand.
inline std::string
sampleExtension() {
    std::string incarnation;
    for (int i = 0; i < 16; ++i)
        incarnation += static_cast<char>(0xa0 + i);
    return std::string("\x01\x01\0\0\0\0\0\0", 8) + incarnation + u64(0x0102030405060708) + u64(3) + u64(11) +
           u64(~0ull) + u64(33);
}

} // namespace nixl::test
