/**
 * @file backend_aux.h
 * What a plugin and the agent hand to each other.
 */
#ifndef NIXL_BACKEND_AUX_H
#define NIXL_BACKEND_AUX_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nixl_descriptors.h"
#include "nixl_types.h"
#include "utils/common/nixl_log.h"
#include "utils/common/nixl_time.h"

/** Messages that arrived: sending agent and text, oldest first. */
using notif_list_t = std::vector<std::pair<std::string, std::string>>;

/** Optional arguments of a transfer. */
struct nixlBackendOptionalArgs {
    nixl_blob_t notifMsg;    ///< message for the target once the data is visible there; only if hasNotif
    bool hasNotif = false;   ///< an empty message is one too
    nixl_blob_t customParam; ///< from the program; the plugin says what it reads
};

using nixl_opt_b_args_t = nixlBackendOptionalArgs;

/** What a new engine is told. It and what it points to live as long as the engine. */
struct nixlBackendInitParams {
    std::string localAgent;                  ///< name of the agent
    nixl_backend_t type;                     ///< name of the plugin
    nixl_b_params_t *customParams = nullptr; ///< parameters of createBackend, unknown keys too; may be null
    bool enableProgTh = false;               ///< the engine may run a progress thread of its own
    nixlTime::us_t pthrDelay = 0;            ///< how long that thread sleeps between passes
    nixl_thread_sync_t syncMode;   ///< as the program asked; calls into an engine are serialised anyway
    bool enableTelemetry_ = false; ///< addTelemetryEvent keeps events
};

/** A plugin's state of a request: a plugin derives its own. Made by prepXfer, ended by releaseReqH. */
class NIXL_EXPORT nixlBackendReqH {
public:
    nixlBackendReqH() = default;
    virtual ~nixlBackendReqH() = default;
};

/** A plugin's state of a registration, its own or a peer's: a plugin derives its own. */
class NIXL_EXPORT nixlBackendMD {
public:
    /** @param isPrivate  true for a registration of this agent (registerMem), false for a loaded one */
    explicit nixlBackendMD(bool isPrivate) : isPrivateMD(isPrivate) {}

    virtual ~nixlBackendMD() = default;

protected:
    bool isPrivateMD;
};

/** An address and a port, for plugins that connect by them. */
class nixlBackendConnMD {
public:
    std::string dstIpAddress;
    std::uint16_t dstPort = 0;
};

/** A piece of memory with the plugin's state of the registration it lies in. */
class NIXL_EXPORT nixlMetaDesc : public nixlBasicDesc {
public:
    nixlBackendMD *metadataP = nullptr; ///< from registerMem, loadLocalMD or loadRemoteMD; owned by neither

    using nixlBasicDesc::nixlBasicDesc;

    nixlMetaDesc() = default;

    explicit nixlMetaDesc(const nixlBasicDesc &desc, nixlBackendMD *metadata = nullptr)
        : nixlBasicDesc(desc), metadataP(metadata) {}

    friend bool
    operator==(const nixlMetaDesc &a, const nixlMetaDesc &b) {
        return static_cast<const nixlBasicDesc &>(a) == b && a.metadataP == b.metadataP;
    }

    friend bool
    operator!=(const nixlMetaDesc &a, const nixlMetaDesc &b) {
        return !(a == b);
    }
};

/** The same in the memory of a named agent. */
class NIXL_EXPORT nixlRemoteMetaDesc : public nixlMetaDesc {
public:
    std::string remoteAgent;

    using nixlMetaDesc::nixlMetaDesc;

    nixlRemoteMetaDesc() = default;

    explicit nixlRemoteMetaDesc(const std::string &agent) : remoteAgent(agent) {}

    friend bool
    operator==(const nixlRemoteMetaDesc &a, const nixlRemoteMetaDesc &b) {
        return static_cast<const nixlMetaDesc &>(a) == b && a.remoteAgent == b.remoteAgent;
    }

    friend bool
    operator!=(const nixlRemoteMetaDesc &a, const nixlRemoteMetaDesc &b) {
        return !(a == b);
    }
};

using nixl_meta_dlist_t = nixlDescList<nixlMetaDesc>;
using nixl_remote_meta_dlist_t = nixlDescList<nixlRemoteMetaDesc>;

#endif
