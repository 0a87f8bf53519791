// The names of the functions of UCX that the engine calls.
#pragma once

// One row per function: the name without its prefix, and the prefix. A library that lacks one is too old.
#define NIXL_UCX_FUNCTIONS(X)                                                                                \
    X(ucp, get_version)                                                                                      \
    X(ucp, get_version_string)                                                                               \
    X(ucp, config_read)                                                                                      \
    X(ucp, config_modify)                                                                                    \
    X(ucp, config_release)                                                                                   \
    X(ucp, init_version)                                                                                     \
    X(ucp, cleanup)                                                                                          \
    X(ucp, context_query)                                                                                    \
    X(ucp, worker_create)                                                                                    \
    X(ucp, worker_destroy)                                                                                   \
    X(ucp, worker_query)                                                                                     \
    X(ucp, worker_progress)                                                                                  \
    X(ucp, worker_arm)                                                                                       \
    X(ucp, worker_get_efd)                                                                                   \
    X(ucp, worker_release_address)                                                                           \
    X(ucp, worker_set_am_recv_handler)                                                                       \
    X(ucp, ep_create)                                                                                        \
    X(ucp, ep_close_nbx)                                                                                     \
    X(ucp, ep_flush_nbx)                                                                                     \
    X(ucp, ep_query)                                                                                         \
    X(ucp, ep_evaluate_perf)                                                                                 \
    X(ucp, ep_rkey_unpack)                                                                                   \
    X(ucp, rkey_destroy)                                                                                     \
    X(ucp, mem_map)                                                                                          \
    X(ucp, mem_unmap)                                                                                        \
    X(ucp, mem_query)                                                                                        \
    X(ucp, rkey_pack)                                                                                        \
    X(ucp, rkey_buffer_release)                                                                              \
    X(ucp, put_nbx)                                                                                          \
    X(ucp, get_nbx)                                                                                          \
    X(ucp, am_send_nbx)                                                                                      \
    X(ucp, am_recv_data_nbx)                                                                                 \
    X(ucp, am_data_release)                                                                                  \
    X(ucp, request_free)                                                                                     \
    X(ucp, request_check_status)                                                                             \
    X(ucs, status_string)                                                                                    \
    X(ucs, log_push_handler)                                                                                 \
    X(ucs, debug_disable_signals)
