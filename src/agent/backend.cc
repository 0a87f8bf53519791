#include "agent/backend.h"

#include <algorithm>

#include "util/concat.h"

namespace nixl {

const std::string *
Service::limit(HostLane lane) const {
    return joined() ? backend->limits().of(lane) : nullptr;
}

const std::string *
Service::limitOfAll() const {
    return joined() ? backend->limits().ofAll(engine->capabilities().memories) : nullptr;
}

bool
Service::offers(nixl_mem_t memory) const {
    return engine->capabilities().remote && engine->takes(memory) && !limit(laneBetweenProcesses(memory));
}

bool
Service::offered() const {
    const auto &memories = engine->capabilities().memories;
    return engine->capabilities().remote &&
           (!joined() || std::any_of(memories.begin(), memories.end(),
                                     [this](nixl_mem_t memory) { return offers(memory); }));
}

nixlPathOption
Service::option(const std::string &lane, std::string reason) const {
    const std::string space = lane.empty() ? "" : " ";
    return {backend->type(), joined() ? concat(engine->name(), space, lane) : lane, false, std::move(reason)};
}

const Service *
find(const ServiceList &services, const EngineSlot *engine) {
    for (const Service &service : services) {
        if (service.engine.get() == engine)
            return &service;
    }
    return nullptr;
}

EngineList
enginesOf(const ServiceList &services) {
    EngineList engines;
    for (const Service &service : services)
        engines.push_back(service.engine);
    return engines;
}

} // namespace nixl
