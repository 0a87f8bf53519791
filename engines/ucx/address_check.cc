#include "engines/ucx/address_check.h"

#include <cmath>
#include <optional>

#include "engines/ucx/packed_bytes.h"

namespace nixl::ucx {

namespace {

// Header.
constexpr unsigned kFirstVersion = 0;
constexpr unsigned kSecondVersion = 1;
constexpr unsigned kHasName = 0x1;
constexpr unsigned kHasId = 0x2;
constexpr unsigned kHasClientId = 0x4;

// Devices.
constexpr unsigned kNoDevices = 0xff;
constexpr unsigned kEmptyDevice = 0x80; // beside the index of the memory domain
constexpr unsigned kLast = 0x80;        // beside a length
constexpr unsigned kHasPaths = 0x40;    // beside the length of a device address
constexpr unsigned kHasSystemDevice = 0x20;
constexpr unsigned kHasEndpoint = 0x40; // beside the length of an interface address
constexpr unsigned kFirstDomainBits = 0x1f;
constexpr unsigned kSecondDomainBits = 0x7f;
constexpr unsigned kDeviceLengthBits = 0x1f;
constexpr unsigned kInterfaceLengthBits = 0x3f;
constexpr unsigned kMaxDomains = 64; // UCX keeps sets of them in 64 bits
constexpr unsigned kReleaseBits = 0xf;

constexpr unsigned kTcp = 0x19cf;

// An address of no bytes reaches a transport as a null pointer, which these follow. Transports are told by a
// checksum of their name.
struct Transport {
    unsigned name;
    bool needsDevice;    // an address of its device
    bool needsInterface; // an address of its interface
};

constexpr Transport kTransports[] = {
    {0x7563, false, true}, // self
    {kTcp, true, true},    // tcp
    {0x538d, true, true},  // sysv
    {0xd3a7, true, true},  // posix
    {0x8b47, true, true},  // cma
    {0xd374, false, true}, // cuda_copy
    {0x5942, true, true},  // cuda_ipc
    {0x8a27, true, false}, // rc_verbs
    {0xd47a, true, false}, // rc_mlx5
    {0xd131, true, true},  // ud_verbs
    {0x0fb3, true, true},  // ud_mlx5
    {0x397e, true, true},  // dc_mlx5
};

class AddressWalk {
public:
    explicit AddressWalk(std::string_view bytes) : walk_(bytes, "the worker address") {}

    Status
    run() {
        header();
        if (walk_.peek() == static_cast<int>(kNoDevices))
            walk_.skip(1, "the mark of a worker without devices");
        else
            while (walk_.ok() && !device()) {
            }
        return walk_.finish();
    }

    /// The four bits that tell the release of the packer.
    std::optional<unsigned>
    release() const {
        return release_;
    }

    const std::vector<TcpInterface> &
    tcp() const {
        return tcp_;
    }

private:
    void
    header() {
        const unsigned first = walk_.takeU8("the header");
        const unsigned version = first & 0xf;
        if (version != kFirstVersion && version != kSecondVersion)
            walk_.refuse(0, "it is of version ", version + 1, ", known are 1 and 2");
        second_ = version == kSecondVersion;
        unsigned flags = first >> 4;
        if (second_) {
            release_ = first >> 4;
            flags = walk_.takeU8("the flags");
        }
        // The first version always has the id; its flag came later.
        if (!second_ || (flags & kHasId))
            walk_.skip(8, "the worker's id");
        if (flags & kHasClientId)
            walk_.skip(8, "the client's id");
        if (flags & kHasName)
            walk_.skip(walk_.takeU8("the length of the worker's name"), "the worker's name");
    }

    /// The number in the low bits of a byte that was read. In the second version one that does not fit there
    /// fills them with ones and stands in the next byte.
    unsigned
    number(unsigned byte, unsigned bits, std::string_view what) {
        const unsigned value = byte & bits;
        if (!second_ || value != bits)
            return value;
        const std::size_t at = walk_.position();
        const unsigned whole = walk_.takeU8(what);
        if (whole < bits)
            walk_.refuse(at, what, " ", whole, " has a second byte that it does not need");
        return whole;
    }

    /// True: it was the last one.
    bool
    device() {
        const std::size_t at = walk_.position();
        const unsigned first = walk_.takeU8("a device");
        const bool empty = (first & kEmptyDevice) != 0;
        const unsigned domain =
            number(first, second_ ? kSecondDomainBits : kFirstDomainBits, "the index of a memory domain");
        if (!empty && domain >= kMaxDomains)
            walk_.refuse(at, "memory domain ", domain, " of at most ", kMaxDomains);
        const unsigned shape = walk_.takeU8("the length of a device address");
        const unsigned length = number(shape, kDeviceLengthBits, "the length of a device address");
        if (shape & kHasPaths)
            paths();
        if (shape & kHasSystemDevice)
            walk_.skip(1, "a system device");
        const std::string_view device = walk_.takeBytes(length, "a device address");
        const bool last = (shape & kLast) != 0;
        if (empty && last)
            release_ = domain & kReleaseBits; // what UCX packs last in the first version is no device
        while (walk_.ok() && !empty && !interface(device)) {
        }
        return last;
    }

    void
    paths() {
        const std::size_t at = walk_.position();
        if (walk_.takeU8("the number of paths") == 0)
            walk_.refuse(at, "a device with 0 paths");
    }

    /// True: it was the last one of its device.
    bool
    interface(std::string_view device) {
        const std::size_t start = walk_.position();
        const unsigned low = walk_.takeU8("the name of a transport");
        const unsigned name = low | walk_.takeU8("the name of a transport") << 8;
        if (second_)
            walk_.skip(8, "the attributes of an interface");
        else
            attributes();
        const std::size_t at = walk_.position();
        const unsigned shape = walk_.takeU8("the length of an interface address");
        const unsigned length = number(shape, kInterfaceLengthBits, "the length of an interface address");
        if (shape & kHasEndpoint)
            walk_.refuse(at, "an endpoint's address, which is in no address of a worker");
        const std::string_view address = walk_.takeBytes(length, "an interface address");
        if (name == kTcp)
            tcp_.push_back({device, address});
        for (const Transport &transport : kTransports)
            if (transport.name == name &&
                ((transport.needsDevice && device.empty()) || (transport.needsInterface && length == 0)))
                walk_.refuse(start, "transport ", Hex{name}, " lacks an address");
        return (shape & kLast) != 0;
    }

    void
    attributes() {
        for (const std::string_view what : {"the overhead", "the bandwidth", "the latency"}) {
            const std::size_t at = walk_.position();
            if (std::isnan(walk_.takeFloat(what)))
                walk_.refuse(at, what, " of an interface is not a number");
        }
        walk_.skip(4, "the abilities of an interface");
    }

    PackedBytes walk_;
    std::vector<TcpInterface> tcp_;
    bool second_ = false;
    std::optional<unsigned> release_;
};

// Of the versions with these four low bits the one next to the own, as UCX takes it.
unsigned
nearestVersion(unsigned release, unsigned ownMinor) {
    const int own = static_cast<int>(ownMinor);
    const int ahead = static_cast<int>(release) - own % 16;
    const int version = own + ahead + (ahead <= -8 ? 16 : 0) - (ahead >= 8 ? 16 : 0);
    return version < 0 ? release : static_cast<unsigned>(version);
}

} // namespace

Status
checkWorkerAddress(std::string_view bytes) {
    return AddressWalk(bytes).run();
}

std::vector<TcpInterface>
tcpInterfaces(std::string_view bytes) {
    AddressWalk walk(bytes);
    return walk.run().ok() ? walk.tcp() : std::vector<TcpInterface>();
}

Result<unsigned>
workerAddressPacker(std::string_view bytes, unsigned ownMinor) {
    AddressWalk walk(bytes);
    if (Status status = walk.run(); !status.ok())
        return status;
    return walk.release() ? nearestVersion(*walk.release(), ownMinor) : 0u;
}

} // namespace nixl::ucx
