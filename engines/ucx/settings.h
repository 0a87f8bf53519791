// What a program and its environment ask of the engine.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engines/ucx/devices.h"
#include "util/options.h"
#include "util/status.h"

namespace nixl::ucx {

enum class ErrorHandling {
    kNone, ///< endpoints do not notice that their peer is gone; every lane of UCX may serve
    kPeer, ///< endpoints fail when their peer does
};

/// A setting for ucp_config_modify, its name without "UCX_".
struct Override {
    std::string name;
    std::string value;
    std::string origin;    ///< who asks for it, for messages: "engine_config"
    bool required = false; ///< else it is a wish, which a UCX that does not know it may pass over
};

/// A list of transports in UCX's words, and who gave it.
struct TransportList {
    std::string text = "all";
    std::string origin = "UCX's default";
};

struct Settings {
    unsigned workers = 1;              ///< more than threads
    unsigned threads = 0;              ///< that post for requests of many blocks; 0: the callers do
    std::size_t splitBatchSize = 1024; ///< blocks from which a request is spread over the threads
    ErrorHandling errorHandling = ErrorHandling::kPeer;
    bool closeForce = false;
    std::vector<Override> overrides; ///< each name once
    TransportList transports;        ///< that UCX may use
};

/// What parameters are judged by besides themselves.
struct Surroundings {
    Environment environment; ///< the UCX_* variables
    HostDevices devices;
};

/// Of this process and host, now: a program may have set variables after it loaded the library.
Surroundings currentSurroundings();

/// Reads the parameters of createBackend. NIXL_ERR_INVALID_PARAM: a value that its parameter does not accept;
/// the message names parameter, value and what is accepted. Parameters of other names are passed over.
Result<Settings> parseSettings(const nixl_b_params_t &params, const Surroundings &surroundings);

inline Result<Settings>
parseSettings(const nixl_b_params_t &params) {
    return parseSettings(params, currentSurroundings());
}

/// Why a list of transports rules out a way inside the host, as a sentence without its full stop; nothing if
/// it does not.
std::optional<std::string> hostLaneLimit(HostLane lane, const TransportList &transports);

} // namespace nixl::ucx
