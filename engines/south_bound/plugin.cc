#include "engines/south_bound/plugin.h"

#include "engines/south_bound/engine.h"
#include "engines/south_bound/guard.h"

namespace nixl::south_bound {

namespace {

template<typename... Parts>
Status
refuse(const std::string &origin, const Parts &...parts) {
    return Status::error(NIXL_ERR_NOT_FOUND, origin, parts...);
}

/// A plugin of another implementation has other class layouts: running it would corrupt memory.
Status
checkAbi(const DynamicLibrary &library) {
    const auto *abi = static_cast<const int *>(library.symbol("nixl_open_plugin_abi"));
    if (abi == nullptr)
        return refuse(library.path(),
                      " was not compiled against the headers of this library (it does not export "
                      "nixl_open_plugin_abi), so its classes have another layout; compile its source against "
                      "backend/backend_plugin.h of this library");
    if (*abi != NIXL_OPEN_PLUGIN_ABI)
        return refuse(library.path(), " was compiled against headers with plugin ABI ", *abi,
                      ", this library has ", NIXL_OPEN_PLUGIN_ABI, "; compile its source again");
    return {};
}

Status
checkDescription(const nixlBackendPlugin &description, const std::string &origin) {
    if (description.api_version != NIXL_PLUGIN_API_VERSION)
        return refuse(origin, " has plugin API version ", description.api_version, ", this library takes ",
                      NIXL_PLUGIN_API_VERSION);
    const char *missing = description.create_engine == nullptr     ? "create_engine"
                          : description.destroy_engine == nullptr  ? "destroy_engine"
                          : description.get_plugin_name == nullptr ? "get_plugin_name"
                                                                   : nullptr;
    return missing == nullptr ? Status() : refuse(origin, " has no function ", missing);
}

/// Fills what the plugin says about itself.
Result<EngineInfo>
describe(const nixlBackendPlugin &description, const std::string &origin) {
    EngineInfo info;
    const Status status = callPlugin(origin, "description", [&] {
        const char *name = description.get_plugin_name();
        info.name = name == nullptr ? "" : name;
        if (description.get_plugin_version != nullptr) {
            const char *version = description.get_plugin_version();
            info.version = version == nullptr ? "" : version;
        }
        if (description.get_backend_options != nullptr)
            info.options = description.get_backend_options();
        if (description.get_backend_mems != nullptr)
            info.memories = description.get_backend_mems();
        return NIXL_SUCCESS;
    });
    if (!status.ok())
        return refuse(origin, " cannot be used: ", status.message());
    if (info.name.empty())
        return refuse(origin, " has no name");
    return info;
}

class SouthBoundFactory : public EngineFactory {
public:
    explicit SouthBoundFactory(std::shared_ptr<const Plugin> plugin) : plugin_(std::move(plugin)) {}

    const EngineInfo &
    info() const override {
        return plugin_->info;
    }

    Result<std::unique_ptr<Engine>>
    create(const EngineConfig &config) const override {
        return SouthBoundEngine::create(plugin_, config);
    }

private:
    const std::shared_ptr<const Plugin> plugin_;
};

} // namespace

Result<std::shared_ptr<EngineFactory>>
makeFactory(std::shared_ptr<DynamicLibrary> library, const nixlBackendPlugin *description,
            const std::string &origin) {
    if (description == nullptr)
        return refuse(origin, " says that it cannot work here: nixl_plugin_init answered null");
    NIXL_RETURN_IF_ERROR(checkDescription(*description, origin));
    Result<EngineInfo> info = describe(*description, origin);
    if (!info.ok())
        return info.status();
    return std::shared_ptr<EngineFactory>(std::make_shared<SouthBoundFactory>(
        std::make_shared<const Plugin>(Plugin{std::move(library), description, std::move(info).value()})));
}

Result<std::shared_ptr<EngineFactory>>
openPlugin(std::shared_ptr<DynamicLibrary> library) {
    const auto init = library->function<nixlBackendPlugin *(*)()>("nixl_plugin_init");
    if (init == nullptr)
        return std::shared_ptr<EngineFactory>();
    NIXL_RETURN_IF_ERROR(checkAbi(*library));
    const std::string origin = library->path();
    const nixlBackendPlugin *description = nullptr;
    const Status status = callPlugin(origin, "nixl_plugin_init", [&] {
        description = init();
        return NIXL_SUCCESS;
    });
    if (!status.ok())
        return refuse(origin, " cannot be used: ", status.message());
    return makeFactory(std::move(library), description, origin);
}

} // namespace nixl::south_bound
