#include "engines/ucx/context.h"

#include "engines/ucx/candidates.h"
#include "engines/ucx/log_route.h"
#include "util/log.h"

namespace nixl::ucx {

namespace {

/// Settings of a context while it is made.
class Config {
public:
    explicit Config(const Api &api) : api_(api) {}

    ~Config() {
        if (config_ != nullptr)
            api_.config_release(config_);
    }

    Config(const Config &) = delete;
    Config &operator=(const Config &) = delete;

    ucs_status_t
    read() {
        return api_.config_read(nullptr, nullptr, &config_);
    }

    ucs_status_t
    set(const std::string &name, const std::string &value) {
        return api_.config_modify(config_, name.c_str(), value.c_str());
    }

    const ucp_config_t *
    get() const {
        return config_;
    }

private:
    const Api &api_;
    ucp_config_t *config_ = nullptr;
};

} // namespace

bool
meansDisconnected(ucs_status_t status) {
    switch (status) {
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_REJECTED:
    case UCS_ERR_CANCELED: // of a closed endpoint: nobody else cancels
    case UCS_ERR_IO_ERROR:
    case UCS_ERR_TIMED_OUT:
    case UCS_ERR_SHMEM_SEGMENT: // the queue of a process that ended
        return true;
    default:
        return false;
    }
}

void
forgetUcxMessage() {
    (void)takeUcxMessage();
}

Result<std::unique_ptr<Context>>
Context::create(std::shared_ptr<const Library> library, const Settings &settings) {
    const Api &api = library->api();
    Config config(api);
    forgetUcxMessage();
    ucs_status_t status = config.read();
    if (status != UCS_OK)
        return Status::error(NIXL_ERR_INVALID_PARAM,
                             "UCX does not accept its environment: ", api.status_string(status), " ",
                             takeUcxMessage());
    for (const Override &change : settings.overrides) {
        forgetUcxMessage();
        status = config.set(change.name, change.value);
        if (status == UCS_OK)
            continue;
        // UCX gives both the same status, but has words only for a value that it cannot read.
        const std::string words = takeUcxMessage();
        if (change.required && !words.empty())
            return Status::error(NIXL_ERR_INVALID_PARAM, change.origin, ": UCX ", library->version(),
                                 " does not take ", change.name, "=", change.value, ": ", words);
        if (change.required)
            NIXL_LOG(kWarn, change.origin, ": ", change.name, " has no effect: UCX ", library->version(),
                     " knows no such setting, or lacks the transport that it belongs to");
        else
            NIXL_LOG(kDebug, "UCX ", library->version(), " has no ", change.name, "=", change.value);
    }
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
    // The features of NIXL's contexts: both ends of a connection need the same.
    params.features = UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64;
    params.features |= UCP_FEATURE_WAKEUP; // of this side alone
    params.mt_workers_shared = 1;          // regions are made and ended by any thread
    ucp_context_h handle = nullptr;
    forgetUcxMessage();
    status = api.init_version(kMinimumMajor, kMinimumMinor, &params, config.get(), &handle);
    if (status != UCS_OK)
        return Status::error(NIXL_ERR_BACKEND, "UCX ", library->version(), " (", library->path(),
                             ") does not start: ", api.status_string(status), " ", takeUcxMessage());
    ucp_context_attr_t attributes{};
    attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
    if (api.context_query(handle, &attributes) != UCS_OK)
        attributes.memory_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    return std::unique_ptr<Context>(new Context(std::move(library), handle, attributes.memory_types));
}

Context::~Context() {
    api().cleanup(handle_);
}

unsigned
Context::minorVersion() const {
    unsigned major = 0, minor = 0, release = 0;
    api().get_version(&major, &minor, &release);
    return minor;
}

bool
Context::knowsDeviceMemory() const {
    return (memoryTypes_ & (UCS_BIT(UCS_MEMORY_TYPE_CUDA) | UCS_BIT(UCS_MEMORY_TYPE_ROCM))) != 0;
}

Status
Context::failed(const std::string &call, ucs_status_t status) const {
    const std::string words = takeUcxMessage();
    return Status::error(NIXL_ERR_BACKEND, call, ": ", api().status_string(status), words.empty() ? "" : " (",
                         words, words.empty() ? "" : ")");
}

} // namespace nixl::ucx
