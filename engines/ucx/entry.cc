#include "engines/ucx/entry.h"

#include "engines/ucx/engine.h"

namespace nixl {

namespace {

class UcxEngineFactory : public EngineFactory {
public:
    UcxEngineFactory() {
        info_.name = "UCX";
        info_.version = "1";
        info_.memories = {DRAM_SEG, VRAM_SEG};
        info_.options = {{"ucx_devices", ""},
                         {"device_list", ""},
                         {"num_workers", "1"},
                         {"num_threads", "0"},
                         {"split_batch_size", "1024"},
                         {"ucx_error_handling_mode", "peer"},
                         {"ucx_num_device_channels", "4"},
                         {"ucx_ep_close_force", "false"},
                         {"engine_config", ""}};
        info_.threadsOption = "num_threads";
        info_.network = true;
    }

    const EngineInfo &
    info() const override {
        return info_;
    }

    Result<std::unique_ptr<Engine>>
    create(const EngineConfig &config) const override {
        auto library = ucx::Library::get(*config.options);
        return library.ok() ? ucx::UcxEngine::create(config, std::move(library).value()) : library.status();
    }

private:
    EngineInfo info_;
};

} // namespace

std::shared_ptr<EngineFactory>
makeUcxEngineFactory() {
    return std::make_shared<UcxEngineFactory>();
}

} // namespace nixl
