/**
 * @file nixl_types.h
 * Enumerations, aliases and option structures of the NIXL interface. Names and values are those of
 * NIXL 1.5.1.
 */
#ifndef NIXL_TYPES_H
#define NIXL_TYPES_H

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#if defined(__GNUC__)
#define NIXL_EXPORT __attribute__((visibility("default")))
#else
#define NIXL_EXPORT
#endif

/** What kind of memory a descriptor names. Values travel in metadata and serialized lists. */
enum nixl_mem_t {
    DRAM_SEG = 0, ///< host memory; addr is a virtual address of the owner, devId is ignored by most engines
    VRAM_SEG = 1, ///< device memory; addr is a device address, devId the owner's device ordinal
    BLK_SEG = 2,  ///< block device; addr is a byte offset, devId names the device
    OBJ_SEG = 3,  ///< object store; devId names the object (key in metaInfo), addr is an offset into it
    FILE_SEG = 4, ///< file; devId is a file descriptor or an id (path in metaInfo), addr is an offset
};

/** Direction of a transfer, seen from the agent that posts it. */
enum nixl_xfer_op_t {
    NIXL_READ = 0,  ///< remote memory into local memory
    NIXL_WRITE = 1, ///< local memory into remote memory
};

/** Result of every call. Negative values are errors; nixl_last_error() (nixl_ext.h) has the text of the
 * cause. */
enum nixl_status_t {
    NIXL_IN_PROG = 1,                 ///< posted and not finished yet
    NIXL_SUCCESS = 0,                 ///< done
    NIXL_ERR_NOT_POSTED = -1,         ///< the request was never posted
    NIXL_ERR_INVALID_PARAM = -2,      ///< an argument is wrong; nothing was changed
    NIXL_ERR_BACKEND = -3,            ///< an engine failed or cannot do this
    NIXL_ERR_NOT_FOUND = -4,          ///< unknown name, unregistered memory, or a stale list or request
    NIXL_ERR_MISMATCH = -5,           ///< bytes that are not what they should be (metadata)
    NIXL_ERR_NOT_ALLOWED = -6,        ///< forbidden in the present state (changed identity, forked child)
    NIXL_ERR_REPOST_ACTIVE = -7,      ///< the request is still in progress
    NIXL_ERR_UNKNOWN = -8,            ///< no better description
    NIXL_ERR_NOT_SUPPORTED = -9,      ///< not offered here
    NIXL_ERR_REMOTE_DISCONNECT = -10, ///< the peer died or closed the connection
    NIXL_ERR_CANCELED = -11,          ///< ended before it was done, at the program's wish or by a deadline
    NIXL_ERR_NO_TELEMETRY = -12,      ///< telemetry is off
};

/**
 * Which locking the program asks for. Every mode is accepted and every agent is thread-safe in each of them;
 * engines of other makers receive the value.
 */
enum class nixl_thread_sync_t {
    NIXL_THREAD_SYNC_NONE = 0,
    NIXL_THREAD_SYNC_STRICT = 1,
    NIXL_THREAD_SYNC_RW = 2,
    NIXL_THREAD_SYNC_DEFAULT = NIXL_THREAD_SYNC_NONE,
};

/** How a cost estimate was found. */
enum class nixl_cost_t {
    ANALYTICAL_BACKEND = 0, ///< the engine's model of latency and bandwidth
};

using nixl_backend_t = std::string;          ///< an engine's name, case-sensitive: "UCX", "LOCAL"
using nixl_telemetry_plugin_t = std::string; ///< a telemetry exporter's name
using nixl_blob_t = std::string;             ///< bytes, NUL allowed
using nixl_mem_list_t = std::vector<nixl_mem_t>;
using nixl_b_params_t = std::unordered_map<std::string, std::string>; ///< an engine's parameters
/** Messages per sending agent, oldest first. */
using nixl_notifs_t = std::unordered_map<std::string, std::vector<nixl_blob_t>>;
/** Answer to one queried descriptor: absent, or present with what the engine knows about it. */
using nixl_query_resp_t = std::optional<nixl_b_params_t>;
using nixlMemViewH = void *; ///< handle of a memory view
using chrono_point_t = std::chrono::steady_clock::time_point;
using chrono_period_us_t = std::chrono::microseconds;

class nixlSerDes;
class nixlDlistH;    ///< opaque: a prepared list
class nixlBackendH;  ///< opaque: an engine of an agent; valid as long as the agent
class nixlXferReqH;  ///< opaque: a transfer request
class nixlAgentData; ///< opaque: an agent's state

/** Marks the local side where a call takes an agent's name. */
#ifndef NIXL_INIT_AGENT
#define NIXL_INIT_AGENT ""
#endif

/** Port of the metadata listener, if nothing else is said. */
inline constexpr int default_comm_port = 8888;
/** Label under which full metadata is published: "metadata". */
NIXL_EXPORT extern const std::string default_metadata_label;
/** Label of partial metadata; there is no default, a caller names one: "". */
NIXL_EXPORT extern const std::string default_partial_metadata_label;
/** Name of the placeholder agent in lists of memory views: "NULL_AGENT". */
NIXL_EXPORT extern const std::string nixl_null_agent;

/** Spelling of enumerators: "DRAM_SEG", "WRITE", "NIXL_ERR_NOT_FOUND". Unknown values: "BAD_SEG", "BAD_OP",
 * "BAD_STATUS". */
namespace nixlEnumStrings {
NIXL_EXPORT std::string memTypeStr(const nixl_mem_t &mem);
NIXL_EXPORT std::string xferOpStr(const nixl_xfer_op_t &op);
NIXL_EXPORT std::string statusStr(const nixl_status_t &status);
} // namespace nixlEnumStrings

/**
 * Optional arguments of agent calls; each call documents which it reads. Default-constructed, it asks for
 * nothing. Pointers and strings are read during the call only.
 */
class nixlAgentOptionalArgs {
public:
    /** Engines to use, in order of preference; empty: the agent decides. */
    std::vector<nixlBackendH *> backends;
    /** Message for the target once the data is visible there. Empty but present is legal. Wins over notifMsg.
     */
    std::optional<nixl_blob_t> notif;
    /** The older way to say `notif`: read only if hasNotif is set and `notif` is absent. */
    nixl_blob_t notifMsg;
    bool hasNotif = false;
    /** Do not merge neighbouring blocks of a request. */
    bool skipDescMerge = false;
    /** Put connection information into partial metadata. */
    bool includeConnInfo = false;
    /** Metadata over sockets: address and port of the peer's listener. */
    std::string ipAddr;
    int port = default_comm_port;
    /** Metadata in a store: label of the key. */
    std::string metadataLabel;
    /** Passed on to the engine, which says what it reads. */
    nixl_blob_t customParam;
};

using nixl_opt_args_t = nixlAgentOptionalArgs;

/** What a finished transfer took. */
class nixlXferTelemetry {
public:
    std::chrono::microseconds startTime{0};    ///< when it was posted: steady clock, microseconds since boot
    std::chrono::microseconds postDuration{0}; ///< time spent in the posting call
    std::chrono::microseconds xferDuration{
        0};                     ///< from the start of the post until the library knew it was done
    std::size_t totalBytes = 0; ///< bytes moved
    std::size_t descCount = 0;  ///< descriptors after merging
};

using nixl_xfer_telem_t = nixlXferTelemetry;

#endif
