#include "engines/ucx/regions.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "util/log.h"

namespace nixl::ucx {

namespace {

/// Openings of a connection whose keys are kept. Operations of an opening end soon after it is closed.
constexpr std::size_t kKeptOpenings = 4;

/// A range of memory in whole pages.
struct Pages {
    std::uint64_t begin;
    std::uint64_t bytes;
};

Pages
pagesAround(std::uint64_t first, std::uint64_t last) {
    static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    const std::uint64_t begin = first & ~(page - 1);
    return {begin, (last | (page - 1)) - begin + 1};
}

/// Whether every page of a range is mapped. Nothing is written: what MS_ASYNC once started, kernels do by
/// themselves, and only look whether the range is there. Where the call is forbidden, UCX judges.
bool
mapped(std::uint64_t first, std::uint64_t last) {
    const Pages pages = pagesAround(first, last);
    return ::msync(reinterpret_cast<void *>(pages.begin), pages.bytes, MS_ASYNC) == 0 || errno != ENOMEM;
}

/// Whether everything from the first range to the end of the last is mapped, which is asked only where the
/// ranges fill it well: then it takes one call for all.
bool
mappedAsOne(std::span<const nixlBlobDesc> descs) {
    std::uint64_t lowest = std::numeric_limits<std::uint64_t>::max(), highest = 0, bytes = 0;
    for (const nixlBlobDesc &desc : descs) {
        lowest = std::min<std::uint64_t>(lowest, desc.addr);
        highest = std::max<std::uint64_t>(highest, desc.addr + (desc.len - 1));
        if (__builtin_add_overflow(bytes, desc.len, &bytes))
            return false;
    }
    constexpr std::uint64_t kSparse = 4;
    return descs.size() > 1 && (highest - lowest) / kSparse <= bytes && mapped(lowest, highest);
}

Status
checkHostMemory(const nixlBlobDesc &desc) {
    const std::uint64_t last = desc.addr + (desc.len - 1);
    if (mapped(desc.addr, last))
        return {};
    // What lies between the ends is for UCX to judge.
    for (const std::uint64_t address : {std::uint64_t{desc.addr}, last}) {
        if (!mapped(address, address))
            return Status::error(NIXL_ERR_BACKEND, "the memory of ", desc.len, " bytes at ", Hex{desc.addr},
                                 " cannot be registered: address ", Hex{address}, " is unmapped");
    }
    return {};
}

/// Whether UCX sees the kind of memory that the program says it is.
Status
checkKind(Context &context, ucp_mem_h handle, const nixlBlobDesc &desc, nixl_mem_t memory) {
    ucp_mem_attr_t attributes{};
    attributes.field_mask = UCP_MEM_ATTR_FIELD_MEM_TYPE;
    const ucs_status_t status = context.api().mem_query(handle, &attributes);
    if (status != UCS_OK)
        return context.failed("ucp_mem_query", status);
    const bool host = attributes.mem_type == UCS_MEMORY_TYPE_HOST;
    if (host == (memory == DRAM_SEG))
        return {};
    return Status::error(NIXL_ERR_BACKEND, "the memory of ", desc.len, " bytes at ", Hex{desc.addr},
                         " was given as ", nixlEnumStrings::memTypeStr(memory), ", but UCX sees ",
                         host ? "host" : "device", " memory");
}

Result<std::string>
packKey(Context &context, ucp_mem_h handle) {
    void *buffer = nullptr;
    std::size_t size = 0;
    const ucs_status_t status = context.api().rkey_pack(context.handle(), handle, &buffer, &size);
    if (status != UCS_OK)
        return context.failed("ucp_rkey_pack", status);
    std::string bytes(static_cast<const char *>(buffer), size);
    context.api().rkey_buffer_release(buffer);
    return bytes;
}

} // namespace

Status
OwnRegion::create(Context &context, RegionKeys &keys, std::span<const nixlBlobDesc> descs, nixl_mem_t memory,
                  std::vector<std::unique_ptr<LocalRegion>> &out) {
    const auto empty =
        std::find_if(descs.begin(), descs.end(), [](const nixlBlobDesc &desc) { return desc.len == 0; });
    const bool checkEach = memory == DRAM_SEG && (empty != descs.end() || !mappedAsOne(descs));
    for (const nixlBlobDesc &desc : descs) {
        if (desc.len == 0)
            return Status::error(NIXL_ERR_INVALID_PARAM, "no memory at ", Hex{desc.addr},
                                 ": its length is 0");
        if (checkEach)
            NIXL_RETURN_IF_ERROR(checkHostMemory(desc));
        auto region = create(context, keys, desc, memory);
        if (!region.ok())
            return region.status();
        out.push_back(std::move(region).value());
    }
    return {};
}

Result<std::unique_ptr<LocalRegion>>
OwnRegion::create(Context &context, RegionKeys &keys, const nixlBlobDesc &desc, nixl_mem_t memory) {
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address = reinterpret_cast<void *>(desc.addr);
    params.length = desc.len;
    ucp_mem_h handle = nullptr;
    forgetUcxMessage();
    const ucs_status_t status = context.api().mem_map(context.handle(), &params, &handle);
    if (status != UCS_OK)
        return context.failed(concat("the memory of ", desc.len, " bytes at ", Hex{desc.addr},
                                     " cannot be registered: ucp_mem_map"),
                              status);
    Status kind = checkKind(context, handle, desc, memory);
    auto key = kind.ok() ? packKey(context, handle) : Result<std::string>(std::move(kind));
    if (!key.ok()) {
        context.api().mem_unmap(context.handle(), handle);
        return key.status();
    }
    std::unique_ptr<OwnRegion> region(new OwnRegion(context, keys, handle, std::move(key).value()));
    if (memory == DRAM_SEG) {
        region->open_ = std::make_shared<OpenMemory>(desc.addr, desc.len);
        region->messageKey_ = keys.add(region->open_);
    }
    return std::unique_ptr<LocalRegion>(std::move(region));
}

OwnRegion::~OwnRegion() {
    close();
    if (const Status status = unmap(); !status.ok())
        NIXL_LOG(kError, "UCX: ", status.message());
}

bool
OwnRegion::close() {
    if (!open_)
        return true;
    keys_.remove(messageKey_);
    return open_->sends.load(std::memory_order_acquire) == 0;
}

Status
OwnRegion::unmap() {
    if (handle_ == nullptr)
        return {};
    const ucs_status_t status = context_.api().mem_unmap(context_.handle(), handle_);
    if (status != UCS_OK)
        return context_.failed("ucp_mem_unmap", status);
    handle_ = nullptr;
    return {};
}

RemoteKey::RemoteKey(const std::vector<std::unique_ptr<ProgressWorker>> &workers, std::string packed)
    : workers_(workers), packed_(std::move(packed)), keys_(workers.size()) {}

RemoteKey::~RemoteKey() {
    if (guard_.inherited())
        return; // the lock and the keys are the parent's
    for (std::size_t i = 0; i < keys_.size(); ++i) {
        ProgressWorker &worker = *workers_[i];
        worker.locked([&] {
            for (const Key &key : keys_[i])
                worker.api().rkey_destroy(key.handle);
        });
    }
}

Result<ucp_rkey_h>
RemoteKey::on(const Connection &connection, std::uint64_t opening) {
    ProgressWorker &worker = connection.worker();
    std::vector<Key> &keys = keys_[worker.index()];
    if (!keys.empty() && keys.back().opening == opening)
        return keys.back().handle;
    ucp_rkey_h handle = nullptr;
    const ucs_status_t status = worker.api().ep_rkey_unpack(connection.endpoint(), packed_.data(), &handle);
    if (status != UCS_OK)
        return worker.context().failed(
            concat("a region of '", connection.peerName(), "': ucp_ep_rkey_unpack"), status);
    keys.push_back({opening, handle});
    if (keys.size() > kKeptOpenings) {
        worker.api().rkey_destroy(keys.front().handle);
        keys.erase(keys.begin());
    }
    return handle;
}

} // namespace nixl::ucx
