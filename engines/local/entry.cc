#include "engines/local/entry.h"

#include "engines/local/engine.h"
#include "util/options.h"

namespace nixl {

namespace {

class LocalEngineFactory : public EngineFactory {
public:
    const EngineInfo &
    info() const override {
        return info_;
    }

    Result<std::unique_ptr<Engine>>
    create(const EngineConfig &config) const override {
        const Options &options = *config.options;
        if (!options.local)
            return Status::error(NIXL_ERR_BACKEND, "switched off by NIXL_LOCAL");
        local::Settings settings;
        settings.threads = options.localThreads;
        settings.connectTimeout = options.localConnectTimeout;
        settings.quiesceTimeout = options.localQuiesceTimeout;
        settings.notifMaxBytes = options.notifMaxBytes;
        settings.notifQueueBytes = options.notifQueueBytes;
        settings.notifTimeout = options.notifTimeout;
        return local::LocalEngine::create(config, settings);
    }

private:
    const EngineInfo info_{.name = "LOCAL",
                           .version = "1",
                           .memories = {DRAM_SEG},
                           .options = {},
                           .exclusiveGroup = "",
                           .threadsOption = "",
                           .joins = true};
};

} // namespace

std::shared_ptr<EngineFactory>
makeLocalEngineFactory() {
    return std::make_shared<LocalEngineFactory>();
}

} // namespace nixl
