/**
 * @file nixl_params.h
 * How an agent is configured.
 */
#ifndef NIXL_PARAMS_H
#define NIXL_PARAMS_H

#include <chrono>
#include <cstdint>

#include "nixl_types.h"

/** Configuration of an agent; read once, at its construction. */
class nixlAgentConfig {
public:
    static constexpr bool kDefaultUseProgThread = false;
    static constexpr bool kDefaultUseListenThread = false;
    static constexpr int kDefaultListenPort = default_comm_port;
    static constexpr nixl_thread_sync_t kDefaultSyncMode = nixl_thread_sync_t::NIXL_THREAD_SYNC_DEFAULT;
    static constexpr std::uint64_t kDefaultPthrDelayUs = 0;
    static constexpr std::uint64_t kDefaultLthrDelayUs = 100000;
    static constexpr bool kDefaultCaptureTelemetry = false;
    static constexpr std::chrono::microseconds kDefaultEtcdWatchTimeout{5000000};

    /** Engines may run a thread of their own that progresses transfers. */
    bool useProgThread = kDefaultUseProgThread;
    /** Listen for peers' metadata on listenPort. */
    bool useListenThread = kDefaultUseListenThread;
    /** Port of the listener; 0: the system chooses. */
    std::uint16_t listenPort = kDefaultListenPort;
    /** Accepted for compatibility: every agent is thread-safe in each mode. Passed on to plugins. */
    nixl_thread_sync_t syncMode = kDefaultSyncMode;
    /** Keep the times of each transfer (getXferTelemetry). NIXL_TELEMETRY_ENABLE wins over it. */
    bool captureTelemetry = kDefaultCaptureTelemetry;
    /** Microseconds a polling progress thread sleeps between passes; passed on to engines. */
    std::uint64_t pthrDelay = kDefaultPthrDelayUs;
    /** Accepted for compatibility: the metadata thread sleeps on events, not on a period. Microseconds. */
    std::uint64_t lthrDelay = kDefaultLthrDelayUs;
    /** How long a fetch from etcd waits for a key that is not there yet. */
    std::chrono::microseconds etcdWatchTimeout = kDefaultEtcdWatchTimeout;

    nixlAgentConfig() = default;

    /** Each argument sets the field of its name; num_workers is accepted and ignored, as in NIXL. */
    explicit nixlAgentConfig(bool use_prog_thread, bool use_listen_thread = kDefaultUseListenThread,
                             int port = kDefaultListenPort, nixl_thread_sync_t sync_mode = kDefaultSyncMode,
                             unsigned int /*num_workers*/ = 1,
                             std::uint64_t pthr_delay_us = kDefaultPthrDelayUs,
                             std::uint64_t lthr_delay_us = kDefaultLthrDelayUs,
                             bool capture_telemetry = kDefaultCaptureTelemetry,
                             std::chrono::microseconds etcd_watch_timeout = kDefaultEtcdWatchTimeout)
        : useProgThread(use_prog_thread), useListenThread(use_listen_thread),
          listenPort(static_cast<std::uint16_t>(port)), syncMode(sync_mode),
          captureTelemetry(capture_telemetry), pthrDelay(pthr_delay_us), lthrDelay(lthr_delay_us),
          etcdWatchTimeout(etcd_watch_timeout) {}
};

#endif
