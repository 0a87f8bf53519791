/**
 * @file nixl_ext.h
 * What this implementation adds to the NIXL interface.
 */
#ifndef NIXL_EXT_H
#define NIXL_EXT_H

#include <string>
#include <vector>

#include "nixl.h"

/** Version of the library, "1.5.1". */
NIXL_EXPORT const char *nixl_version();

/**
 * The text of the cause of the last failing call that this thread made on any agent; "" if there was none.
 * Successful calls leave it as it is. Valid until the thread's next call on an agent.
 */
NIXL_EXPORT const char *nixl_last_error();

/**
 * Names the folder of a Python package `libucx` whose UCX may be used, for when it does not lie beside this
 * library. Counts until a UCX is opened. Any thread.
 */
NIXL_EXPORT void nixl_add_libucx(const std::string &folder);

/** One way to carry a transfer, taken or not. */
struct nixlPathOption {
    std::string backend; ///< engine, as createBackend names it
    std::string path;    ///< lane within the engine: "same process", "process_vm"
    bool chosen = false;
    std::string reason; ///< why it was chosen, or why it was not
};

/** How a request travels and why. */
struct nixlPathExplanation {
    std::string backend;                 ///< engine that carries it
    std::string path;                    ///< lane within the engine
    std::string reason;                  ///< why this one
    std::size_t blocks = 0;              ///< descriptors after merging
    std::size_t bytes = 0;               ///< payload of one post
    std::vector<nixlPathOption> options; ///< everything that was considered, fastest first

    /** Several lines for people. */
    NIXL_EXPORT std::string toString() const;
};

/** Explains the path of a request. NIXL_ERR_INVALID_PARAM: not a live request of this agent. Any thread. */
NIXL_EXPORT nixl_status_t nixlExplain(const nixlAgent &agent, const nixlXferReqH *request,
                                      nixlPathExplanation &explanation);

#endif
