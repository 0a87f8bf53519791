#include "engines/ucx/regions.h"

#include <sys/mman.h>
#include <unistd.h>

#include "util/log.h"

namespace nixl::ucx {

namespace {

/// Openings of a connection whose keys are kept. Operations of an opening end soon after it is closed.
constexpr std::size_t kKeptOpenings = 4;

/// Whether the page of an address is mapped.
bool
mapped(std::uint64_t address) {
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    unsigned char resident = 0;
    return ::mincore(reinterpret_cast<void *>(address & ~(page - 1)), 1, &resident) == 0;
}

Status
checkHostMemory(const nixlBlobDesc &desc) {
    for (const std::uint64_t address : {desc.addr, desc.addr + (desc.len - 1)}) {
        if (!mapped(address))
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

Result<std::unique_ptr<LocalRegion>>
OwnRegion::create(Context &context, const nixlBlobDesc &desc, nixl_mem_t memory) {
    if (memory == DRAM_SEG)
        NIXL_RETURN_IF_ERROR(checkHostMemory(desc));
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
    return std::unique_ptr<LocalRegion>(new OwnRegion(context, handle, std::move(key).value()));
}

OwnRegion::~OwnRegion() {
    if (const Status status = unmap(); !status.ok())
        NIXL_LOG(kError, "UCX: ", status.message());
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

PeerRegion::PeerRegion(const std::vector<std::unique_ptr<ProgressWorker>> &workers, std::string packedKey)
    : workers_(workers), packedKey_(std::move(packedKey)), keys_(workers.size()) {}

PeerRegion::~PeerRegion() {
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
PeerRegion::key(const Connection &connection, std::uint64_t opening) {
    ProgressWorker &worker = connection.worker();
    std::vector<Key> &keys = keys_[worker.index()];
    if (!keys.empty() && keys.back().opening == opening)
        return keys.back().handle;
    ucp_rkey_h handle = nullptr;
    const ucs_status_t status =
        worker.api().ep_rkey_unpack(connection.endpoint(), packedKey_.data(), &handle);
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
