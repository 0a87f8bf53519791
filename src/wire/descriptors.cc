#include "nixl_descriptors.h"

#include <cstring>

#include "util/log.h"
#include "wire/desc_list_impl.h"

namespace {

constexpr std::size_t kDescBytes = sizeof(nixlBasicDesc);

// Zeros if `blob` is too short.
nixlBasicDesc
basicPart(const nixl_blob_t &blob) {
    nixlBasicDesc desc(0, 0, 0);
    if (blob.size() >= kDescBytes)
        std::memcpy(static_cast<void *>(&desc), blob.data(), kDescBytes);
    return desc;
}

std::string
behindBasicPart(const nixl_blob_t &blob) {
    return blob.size() > kDescBytes ? blob.substr(kDescBytes) : std::string();
}

} // namespace

namespace nixl {

std::string
describe(const nixlBasicDesc &desc) {
    return concat("addr ", Hex{desc.addr}, ", len ", desc.len, ", devId ", desc.devId);
}

std::string
describe(const nixlBlobDesc &desc) {
    return concat(describe(static_cast<const nixlBasicDesc &>(desc)), ", ", desc.metaInfo.size(),
                  " bytes of metaInfo");
}

std::string
describe(const nixlRemoteDesc &desc) {
    return concat(describe(static_cast<const nixlBasicDesc &>(desc)), ", agent ", desc.remoteAgent);
}

std::string
describe(const nixlStrideDesc &desc) {
    return concat(describe(static_cast<const nixlBasicDesc &>(desc)), ", stride ", desc.stride, ", count ",
                  desc.count);
}

} // namespace nixl

nixlBasicDesc::nixlBasicDesc(const nixl_blob_t &blob)
    : nixlBasicDesc(basicPart(blob.size() == kDescBytes ? blob : nixl_blob_t())) {}

nixl_blob_t
nixlBasicDesc::serialize() const {
    return nixl_blob_t(reinterpret_cast<const char *>(this), kDescBytes);
}

void
nixlBasicDesc::print(const std::string &suffix) const {
    NIXL_LOG(kInfo, nixl::describe(*this), suffix);
}

nixlBlobDesc::nixlBlobDesc(const nixl_blob_t &blob)
    : nixlBasicDesc(basicPart(blob)), metaInfo(behindBasicPart(blob)) {}

nixl_blob_t
nixlBlobDesc::serialize() const {
    return nixlBasicDesc::serialize() + metaInfo;
}

void
nixlBlobDesc::print(const std::string &suffix) const {
    NIXL_LOG(kInfo, nixl::describe(*this), suffix);
}

nixlRemoteDesc::nixlRemoteDesc(const nixl_blob_t &blob)
    : nixlBasicDesc(basicPart(blob)), remoteAgent(behindBasicPart(blob)) {}

nixl_blob_t
nixlRemoteDesc::serialize() const {
    return nixlBasicDesc::serialize() + remoteAgent;
}

void
nixlRemoteDesc::print(const std::string &suffix) const {
    NIXL_LOG(kInfo, nixl::describe(*this), suffix);
}

void
nixlStrideDesc::print(const std::string &suffix) const {
    NIXL_LOG(kInfo, nixl::describe(*this), suffix);
}

template class nixlDescList<nixlBasicDesc>;
template class nixlDescList<nixlBlobDesc>;
template class nixlDescList<nixlRemoteDesc>;
template class nixlDescList<nixlStrideDesc>;
