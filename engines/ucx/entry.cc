#include "engines/ucx/entry.h"

#include "engines/ucx/engine.h"

namespace nixl {

namespace {

class UcxEngineFactory : public EngineFactory {
public:
    const EngineInfo &
    info() const override {
        return info_;
    }

    Result<std::unique_ptr<Engine>>
    create(const EngineConfig &config) const override {
        // First, so that a mistake of the program is one also where there is no UCX.
        auto settings = ucx::parseSettings(config.params);
        if (!settings.ok())
            return settings.status();
        auto library = ucx::Library::get(*config.options);
        if (!library.ok())
            return library.status();
        return ucx::UcxEngine::create(config, std::move(settings).value(), std::move(library).value());
    }

    std::optional<std::string>
    hostLaneLimit(HostLane lane, const EngineConfig &config) const override {
        const auto settings = ucx::parseSettings(config.params);
        return settings.ok() ? ucx::hostLaneLimit(lane, settings.value().transports) : std::nullopt;
    }

private:
    const EngineInfo info_{.name = "UCX",
                           .version = "1",
                           .memories = {DRAM_SEG, VRAM_SEG},
                           .options = {{"ucx_devices", ""},
                                       {"device_list", ""},
                                       {"num_workers", "1"},
                                       {"num_threads", "0"},
                                       {"split_batch_size", "1024"},
                                       {"ucx_error_handling_mode", "peer"},
                                       {"ucx_num_device_channels", "4"},
                                       {"ucx_ep_close_force", "false"},
                                       {"engine_config", ""}},
                           .exclusiveGroup = "",
                           .threadsOption = "num_threads",
                           .network = true,
                           .joins = false};
};

} // namespace

std::shared_ptr<EngineFactory>
makeUcxEngineFactory() {
    return std::make_shared<UcxEngineFactory>();
}

} // namespace nixl
