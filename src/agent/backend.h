// Backends, which are what a program creates, and the engines that serve them.
//
// A backend has an engine of its own. The engine that joins (EngineInfo::joins) serves every network backend
// as well, in the backend's name, and stands in for one whose own engine cannot start here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/engine_slot.h"
#include "agent/host_lane_limits.h"
#include "engine/engine.h"
#include "nixl_ext.h"

/// What the public interface calls a backend handle. Constant.
class nixlBackendH {
public:
    /// `refusal` is why another engine stands in, if one does.
    nixlBackendH(const nixl::EngineInfo &info, const nixl_b_params_t &params, nixl::EnginePtr engine,
                 nixl::HostLaneLimits limits, std::string refusal)
        : type_(info.name), network_(info.network), params_(params), engine_(std::move(engine)),
          limits_(std::move(limits)), refusal_(std::move(refusal)) {}

    const std::string &
    type() const {
        return type_;
    }

    const nixl_b_params_t &
    params() const {
        return params_;
    }

    /// Whether it reaches other hosts, if its own engine is there.
    bool
    network() const {
        return network_;
    }

    /// Its own engine, or the one that stands in.
    const nixl::EnginePtr &
    engine() const {
        return engine_;
    }

    /// Its own engine; nullptr if another one stands in.
    const nixl::EngineSlot *
    own() const {
        return engine_->name() == type_ ? engine_.get() : nullptr;
    }

    /// What its settings rule out for an engine that works for it.
    const nixl::HostLaneLimits &
    limits() const {
        return limits_;
    }

    /// Why its own engine could not start here; "" if it did.
    const std::string &
    refusal() const {
        return refusal_;
    }

private:
    const std::string type_;
    const bool network_;
    const nixl_b_params_t params_;
    const nixl::EnginePtr engine_;
    const nixl::HostLaneLimits limits_;
    const std::string refusal_;
};

namespace nixl {

using BackendPtr = std::shared_ptr<nixlBackendH>;

/// Backends in order of preference.
using BackendList = std::vector<BackendPtr>;

/// An engine as it serves a call: for the program, everything that it does is done by `backend`.
struct Service {
    EnginePtr engine;
    BackendPtr backend;

    /// Whether it works for a backend that is not its own.
    bool
    joined() const {
        return backend->own() != engine.get();
    }

    /// Why the program's settings for the backend rule out a lane; nullptr if they do not.
    const std::string *limit(HostLane lane) const;

    /// Why they rule out every lane; nullptr if they do not.
    const std::string *limitOfAll() const;

    /// Whether peers may be told of its memory of this kind: not if the program rules out the lane by which
    /// they would come.
    bool offers(nixl_mem_t memory) const;

    /// Whether peers may be told of it at all.
    bool offered() const;

    /// This way as explain tells it: a lane of the backend. An engine that joined is named in the lane.
    nixlPathOption option(const std::string &lane, std::string reason) const;
};

/// The engines that serve a call, each once, in order of preference.
using ServiceList = std::vector<Service>;

/// The service of an engine; nullptr if it is not in the list.
const Service *find(const ServiceList &services, const EngineSlot *engine);

/// The engines of a list.
EngineList enginesOf(const ServiceList &services);

} // namespace nixl
