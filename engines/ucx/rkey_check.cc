#include "engines/ucx/rkey_check.h"

#include "engines/ucx/packed_bytes.h"

namespace nixl::ucx {

namespace {

constexpr unsigned kFirstWithDevice = 20;
constexpr unsigned kNoDevice = 0xff;
// UCX 1.22 and 1.23 know ten types and index tables of that length; older ones know a prefix of these.
constexpr unsigned kMemoryTypes = 10;

// The device that has the memory and how far others are from it: a list in ascending order, with an end mark.
void
walkDistances(PackedBytes &walk) {
    if (walk.takeU8("the device of the memory") == kNoDevice)
        return;
    for (int former = -1; walk.ok();) {
        const std::size_t at = walk.position();
        const unsigned device = walk.takeU8("a device or the end of the list of distances");
        if (device == kNoDevice)
            return;
        if (static_cast<int>(device) <= former)
            walk.refuse(at, "the distance to device ", device, " behind that to device ", former);
        walk.skip(2, "the distance to a device");
        former = static_cast<int>(device);
    }
}

} // namespace

Status
checkPackedKey(std::string_view bytes, unsigned packer) {
    PackedBytes walk(bytes, "the remote key");
    const std::uint64_t domains = walk.takeU64("the set of memory domains");
    const std::size_t at = walk.position();
    const unsigned type = walk.takeU8("the type of memory");
    if (type >= kMemoryTypes)
        walk.refuse(at, "type of memory ", type, ", known are 0 to ", kMemoryTypes - 1);
    for (std::uint64_t left = domains; left != 0 && walk.ok(); left &= left - 1)
        walk.skip(walk.takeU8("the length of a domain's key"), "a domain's key");
    if (packer >= kFirstWithDevice && domains != 0)
        walkDistances(walk);
    return walk.finish();
}

} // namespace nixl::ucx
