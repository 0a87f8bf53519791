#include <iterator>

#include "util/options.h"

namespace nixl {

namespace {

constexpr std::uint64_t kDayMs = 24 * 60 * 60 * 1000;

constexpr OptionRow kTable[] = {
    {.name = "NIXL_LOG_LEVEL",
     .field = &Options::logLevel,
     .help = "Log lines below this level are not written."},
    {.name = "NIXL_CONFIG_FILE",
     .field = &Options::configFile,
     .help = "The TOML file to read instead of the default ones; it must exist.",
     .whenEmpty = "$HOME/.nixl.cfg, else /etc/nixl.cfg",
     .environmentOnly = true},
    {.name = "NIXL_PLUGIN_DIR",
     .field = &Options::pluginDir,
     .help = "Folder in which loadable engines and telemetry exporters are looked for first.",
     .whenEmpty = "only the folder `plugins` beside the library"},

    {.name = "NIXL_LOCAL",
     .field = &Options::local,
     .help = "Whether transfers within a host may use the engine LOCAL."},
    {.name = "NIXL_LOCAL_THREADS",
     .field = &Options::localThreads,
     .help = "Threads that copy for the engine LOCAL; 0: one less than the cores that affinity and control "
             "groups allow, at most 8.",
     .most = 1024},
    {.name = "NIXL_LOCAL_CONNECT_TIMEOUT_MS",
     .field = &Options::localConnectTimeout,
     .help = "How long the engine LOCAL waits for a process of this host to answer, in milliseconds.",
     .least = 1,
     .most = kDayMs},
    {.name = "NIXL_LOCAL_QUIESCE_TIMEOUT_MS",
     .field = &Options::localQuiesceTimeout,
     .help = "How long deregistering memory, or ending an agent, waits for an access by a peer that is under "
             "way, in milliseconds.",
     .most = kDayMs},

    {.name = "NIXL_UCX_DIR",
     .field = &Options::ucxDir,
     .help = "Where the UCX to use lies: the folder of its libucp.so.0, or the prefix above `lib`; nothing "
             "else is "
             "considered then.",
     .whenEmpty = "the best of those that are found"},
    {.name = "NIXL_UCX_PACKED_BLOCKS",
     .field = &Options::ucxPackedBlocks,
     .help = "Whether transfers over TCP to agents of this implementation pack their blocks into messages; "
             "off: a put or get per block, as to others."},

    {.name = "NIXL_NOTIF_MAX_BYTES",
     .field = &Options::notifMaxBytes,
     .help = "The longest notification that is sent or accepted, in bytes.",
     .least = 1,
     .most = std::uint64_t{1} << 40},
    {.name = "NIXL_NOTIF_QUEUE_BYTES",
     .field = &Options::notifQueueBytes,
     .help =
         "How many bytes of notifications wait for an agent's program before it takes in no more, so that "
         "its peers have to wait.",
     .least = 1,
     .most = std::uint64_t{1} << 40},
    {.name = "NIXL_NOTIF_TIMEOUT_MS",
     .field = &Options::notifTimeout,
     .help =
         "How long sending a notification waits for room at a peer that takes in no more, in milliseconds; "
         "then it is refused.",
     .most = kDayMs},
    {.name = "NIXL_PEER_EVENTS",
     .field = &Options::peerEvents,
     .help = "How many events of peers an agent keeps for its program; of more, the oldest go.",
     .least = 1,
     .most = std::uint64_t{1} << 24},
    {.name = "NIXL_RELEASE_TIMEOUT_MS",
     .field = &Options::releaseTimeout,
     .help = "How long releasing an active request waits for it to stop, in milliseconds.",
     .most = kDayMs},
    {.name = "NIXL_TRANSFER_TIMEOUT_MS",
     .field = &Options::transferTimeout,
     .help = "After how many milliseconds a transfer that was posted without a time of its own is cancelled; "
             "0: never.",
     .most = kDayMs},
    {.name = "NIXL_CUT_OFF_TIMEOUT_MS",
     .field = &Options::cutOffTimeout,
     .help = "How long a cancelled transfer may keep its memory busy, in milliseconds, before the connection "
             "to its peer is "
             "ended by force.",
     .most = kDayMs},

    {.name = "NIXL_TELEMETRY_ENABLE",
     .field = &Options::telemetryEnable,
     .help = "Turns telemetry on or off, whatever the program asks for.",
     .whenEmpty = "as the program asks"},
    {.name = "NIXL_TELEMETRY_BUFFER_SIZE",
     .field = &Options::telemetryBufferSize,
     .help = "How many telemetry events are held between two flushes.",
     .least = 1,
     .most = std::uint64_t{1} << 24},
    {.name = "NIXL_TELEMETRY_RUN_INTERVAL",
     .field = &Options::telemetryRunInterval,
     .help = "Time between two flushes of telemetry events, in milliseconds.",
     .least = 1,
     .most = kDayMs},
    {.name = "NIXL_TELEMETRY_EXPORTER",
     .field = &Options::telemetryExporter,
     .help = "Who publishes the telemetry events: BUFFER, NOP, or NAME of a libtelemetry_exporter_NAME.so.",
     .whenEmpty = "BUFFER with NIXL_TELEMETRY_DIR, else NOP"},
    {.name = "NIXL_TELEMETRY_DIR",
     .field = &Options::telemetryDir,
     .help = "Folder in which the BUFFER exporter writes a file for each agent.",
     .whenEmpty = "none"},
    {.name = "NIXL_TELEMETRY_ENABLED_METRICS",
     .field = &Options::telemetryEnabledMetrics,
     .help = "The events to publish: patterns with *, ? and [...], separated by commas.",
     .whenEmpty = "all"},

    {.name = "NIXL_ETCD_ENDPOINTS",
     .field = &Options::etcdEndpoints,
     .help = "The etcd servers that keep metadata, separated by commas; this build has no client for them, "
             "but an "
             "agent refuses to start with both stores set.",
     .whenEmpty = "none"},
    {.name = "NIXL_TCPSTORE_ENDPOINT",
     .field = &Options::tcpStoreEndpoint,
     .help = "The TCPStore server that keeps metadata, as host:port; this build has no client for it, but an "
             "agent "
             "refuses to start with both stores set.",
     .whenEmpty = "none"},
};

} // namespace

std::span<const OptionRow>
optionTable() {
    return kTable;
}

} // namespace nixl
