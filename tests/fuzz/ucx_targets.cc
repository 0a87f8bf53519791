#include <cstdio>
#include <cstdlib>
#include <string>

#include "engines/ucx/address_check.h"
#include "engines/ucx/elf_file.h"
#include "engines/ucx/rkey_check.h"
#include "fuzz/targets.h"

namespace nixl::fuzz {

namespace {

void
require(bool condition, const char *promise) {
    if (condition)
        return;
    std::fprintf(stderr, "broken promise: %s\n", promise);
    std::abort();
}

template<typename Check>
void
checkExact(std::string_view bytes, Check check) {
    const Status status = check(bytes);
    if (!status.ok()) {
        require(status.code() == NIXL_ERR_MISMATCH && !status.message().empty(),
                "an error has a code and a message");
        return;
    }
    require(!check(bytes.substr(0, bytes.size() - 1)).ok(), "nothing is missing");
    require(!check(std::string(bytes) + bytes.back()).ok(), "nothing is left");
}

} // namespace

void
elf(std::string_view bytes) {
    constexpr std::string_view kNames[] = {"ucp_get_version", "ucp_from_the_future"};
    const Result<ucx::ElfFile> file = ucx::ElfFile::parse(bytes);
    if (!file.ok()) {
        require(!file.status().message().empty(), "an error has a message");
        return;
    }
    const std::string_view missing = file.value().firstMissing(kNames);
    require(missing.empty() || missing == kNames[0] || missing == kNames[1], "a name that was asked for");
    const std::optional<std::string> version = file.value().versionText();
    require(!version || (version->size() >= 5 && bytes.find(*version) != std::string_view::npos),
            "a version that stands there");
}

void
ucxAddress(std::string_view bytes) {
    checkExact(bytes, ucx::checkWorkerAddress);
    const auto packer = ucx::workerAddressPacker(bytes, 22);
    require(packer.ok() == ucx::checkWorkerAddress(bytes).ok(), "both readers agree");
    require(!packer.ok() || packer.value() == 0 || (packer.value() >= 14 && packer.value() <= 29),
            "a version near the own");
}

void
ucxKey(std::string_view bytes) {
    if (bytes.empty())
        return;
    const auto packer = static_cast<unsigned char>(bytes[0]);
    checkExact(bytes.substr(1), [&](std::string_view key) { return ucx::checkPackedKey(key, packer); });
}

} // namespace nixl::fuzz
