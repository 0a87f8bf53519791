/**
 * @file nixl_ext.h
 * What this implementation adds to the NIXL interface.
 */
#ifndef NIXL_EXT_H
#define NIXL_EXT_H

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
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

namespace nixl {
class ActivityWatch;
class SealedMemory;
} // namespace nixl

/**
 * Memory that other processes of this host can map, so that transfers between them are plain copies: a memfd
 * that is sealed against shrinking. Copies of the object share the memory, which ends with the last one; end
 * its registrations before. Any thread.
 *
 * After fork() parent and child share the bytes (they are not copied), and each unmaps its own mapping.
 */
class nixlMemory {
public:
    nixlMemory() = default; ///< none

    explicit
    operator bool() const {
        return memory_ != nullptr;
    }

    /** First byte, at the beginning of a page; nullptr if there is none. */
    NIXL_EXPORT void *data() const;

    /** Bytes asked for. */
    NIXL_EXPORT std::size_t size() const;

    /** Bytes of a page: of huge ones, if explicit huge pages were asked for and are there. */
    NIXL_EXPORT std::size_t pageSize() const;

    /** Why there are no huge pages although they were asked for; else "". */
    NIXL_EXPORT std::string note() const;

private:
    explicit nixlMemory(std::shared_ptr<const nixl::SealedMemory> memory) : memory_(std::move(memory)) {}

    friend nixl_status_t nixlAlloc(std::size_t bytes, nixlMemory &memory, bool hugePages);
    friend nixl_status_t nixlShareMemfd(int fd, void *address, std::size_t bytes, nixlMemory &memory);

    std::shared_ptr<const nixl::SealedMemory> memory_;
};

/**
 * Makes memory that other processes can map: zeros at first, in whole pages, which exist once they are
 * touched and are transparently huge where the system gives such to shared memory. With `hugePages`, explicit
 * huge pages are reserved; where there are none, the memory has ordinary ones and note() says why.
 *
 * NIXL_ERR_INVALID_PARAM: 0 bytes; NIXL_ERR_BACKEND: the system refuses. nixl_last_error() names the size and
 * the cause. Any thread.
 */
NIXL_EXPORT nixl_status_t nixlAlloc(std::size_t bytes, nixlMemory &memory, bool hugePages = false);

/**
 * Lets peers map memory that the program itself has mapped from a memfd: shared, for reading and writing, the
 * memfd sealed with F_SEAL_SHRINK. Say so before the memory is registered. The descriptor may be closed
 * afterwards; the mapping stays the program's, and outlives `memory`, which stands for the sharing.
 *
 * NIXL_ERR_INVALID_PARAM: what does not hold is in nixl_last_error(). Reads /proc/self/maps. Any thread.
 */
NIXL_EXPORT nixl_status_t nixlShareMemfd(int fd, void *address, std::size_t bytes, nixlMemory &memory);

/** One way to carry a transfer, taken or not. */
struct nixlPathOption {
    std::string backend; ///< engine, as createBackend names it
    std::string path;    ///< lane within the engine: "same process", "shared mapping", "process_vm"
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

/**
 * nixlAgent::postXferReq() of a request that gets `timeout` for this run: one that has not ended by then is
 * cancelled, and ends with NIXL_ERR_CANCELED and that cause as soon as local memory is quiet; if it is not
 * within NIXL_CUT_OFF_TIMEOUT_MS, by ending the connection to the peer. 0: no limit, whatever
 * NIXL_TRANSFER_TIMEOUT_MS says. The limit holds while somebody asks for the state or waits.
 * NIXL_ERR_INVALID_PARAM: negative. Any thread.
 */
NIXL_EXPORT nixl_status_t nixlPost(const nixlAgent &agent, nixlXferReqH *request,
                                   std::chrono::milliseconds timeout,
                                   const nixl_opt_args_t *extra_params = nullptr);

/**
 * Ends a run in progress, which is then NIXL_ERR_CANCELED for getXferStatus(), unless it ended otherwise
 * before. NIXL_SUCCESS: local memory is quiet, no byte of it is read or written by the transfer any more;
 * also for requests that do not run. NIXL_IN_PROG: not yet; ask for the state, or wait, until it is no more
 * in progress. Never blocks; the request stays, and can be posted again. When remote memory is quiet:
 * docs/transfers.md. NIXL_ERR_INVALID_PARAM: not a live request of this agent. Any thread.
 */
NIXL_EXPORT nixl_status_t nixlCancel(const nixlAgent &agent, nixlXferReqH *request);

/**
 * Waits until no request of the agent is in progress, and cancels those that are after `timeout`, as
 * nixlCancel(). NIXL_SUCCESS: local memory is quiet; NIXL_IN_PROG: that of some is not, although they were
 * cancelled NIXL_LOCAL_QUIESCE_TIMEOUT_MS ago. What is posted meanwhile is left alone. Any thread.
 */
NIXL_EXPORT nixl_status_t nixlDrain(const nixlAgent &agent, std::chrono::milliseconds timeout);

/**
 * Whether local memory is quiet: the request was never posted, or its last run has ended and somebody was
 * told so. Does no work; getXferStatus() and waiting do. NIXL_ERR_INVALID_PARAM: as nixlCancel(). Any thread.
 */
NIXL_EXPORT nixl_status_t nixlIsQuiet(const nixlAgent &agent, const nixlXferReqH *request, bool &quiet);

// ---- Waiting ----
//
// Who waits sleeps until something happens, whatever progress threads the agent has: the first wait starts
// those that it needs (docs/waiting.md). Any thread, any number of them; the agent must outlive the call.

/** A time that does not come. */
inline constexpr std::chrono::microseconds nixl_forever = std::chrono::microseconds::max();

/**
 * Waits for the end of a transfer and answers as getXferStatus: NIXL_IN_PROG after `timeout`. A thread that
 * waits for copies does a part of them. If another thread releases the request: NIXL_ERR_CANCELED or, once
 * the handle is gone, NIXL_ERR_INVALID_PARAM.
 */
NIXL_EXPORT nixl_status_t nixlWait(const nixlAgent &agent, nixlXferReqH *request,
                                   std::chrono::microseconds timeout = nixl_forever);

/** Waits until nixlIsQuiet(), whatever the run comes to; NIXL_IN_PROG: not after `timeout`. */
NIXL_EXPORT nixl_status_t nixlWaitQuiet(const nixlAgent &agent, nixlXferReqH *request,
                                        std::chrono::microseconds timeout = nixl_forever);

/**
 * Waits until one of the requests is not in progress: it has ended, was released, or was never posted, which
 * getXferStatus tells. NIXL_SUCCESS: `which` is the first such; NIXL_IN_PROG: none after `timeout`;
 * NIXL_ERR_INVALID_PARAM: there are no requests.
 */
NIXL_EXPORT nixl_status_t nixlWaitAny(const nixlAgent &agent, std::span<nixlXferReqH *const> requests,
                                      std::size_t &which, std::chrono::microseconds timeout = nixl_forever);

/**
 * Waits until none of the requests is in progress. NIXL_SUCCESS: all are done; NIXL_IN_PROG: not all have
 * ended after `timeout`; else what getXferStatus answers for the first that failed.
 */
NIXL_EXPORT nixl_status_t nixlWaitAll(const nixlAgent &agent, std::span<nixlXferReqH *const> requests,
                                      std::chrono::microseconds timeout = nixl_forever);

/** getNotifs once there are any; NIXL_IN_PROG: none after `timeout`. */
NIXL_EXPORT nixl_status_t nixlWaitNotifs(nixlAgent &agent, nixl_notifs_t &notif_map,
                                         std::chrono::microseconds timeout = nixl_forever,
                                         const nixl_opt_args_t *extra_params = nullptr);

/**
 * A descriptor for poll, epoll and event loops that becomes readable when something happens at an agent: a
 * transfer has ended, a message has arrived. It does not say what: clear() it, then look. Each has events of
 * its own. Copies share it; it is closed with the last one, and may outlive the agent. In a forked child it
 * does nothing. Any thread.
 *
 * Let the last look before a sleep be nixlWaitAny or nixlWaitNotifs with timeout 0: the library's threads
 * then know at once that the program has stopped asking.
 */
class nixlWatch {
public:
    nixlWatch() = default; ///< none

    explicit
    operator bool() const {
        return watch_ != nullptr;
    }

    /** Owned by the object; -1 if there is none. */
    NIXL_EXPORT int fd() const;

    /** Not readable any more until the next event. What happened before is seen by a look from now on. */
    NIXL_EXPORT void clear();

private:
    friend nixl_status_t nixlWatchActivity(const nixlAgent &agent, nixlWatch &watch);

    std::shared_ptr<nixl::ActivityWatch> watch_;
};

/**
 * Watches an agent. NIXL_ERR_BACKEND: there is no descriptor left; NIXL_ERR_NOT_SUPPORTED: a backend of the
 * agent cannot tell of events, so one has to ask or to use the calls above.
 */
NIXL_EXPORT nixl_status_t nixlWatchActivity(const nixlAgent &agent, nixlWatch &watch);

// ---- Peers ----

/** Something that happened to a peer; docs/peers.md says what each kind means. */
struct nixlPeerEvent {
    enum class Kind {
        kJoined,      ///< its metadata was loaded
        kUpdated,     ///< newer metadata of it changed what is known
        kStalled,     ///< it does not answer, and may go on at any time; nothing of it has ended
        kResumed,     ///< it answers again
        kLost,        ///< it is gone, or was replaced by another life of it; it is not known any more
        kLeft,        ///< the program removed it
        kUndelivered, ///< a message to it was lost, or nobody knows whether it arrived: `message`
    };

    std::string peer;
    Kind kind;
    std::string why;
    std::chrono::system_clock::time_point when; ///< when it was seen
    std::size_t dropped = 0; ///< events before this one that nobody took in time (NIXL_PEER_EVENTS)
    nixl_blob_t message{};   ///< of kUndelivered
};

/**
 * Appends what has happened to peers since the last call, oldest first. An agent keeps the newest
 * NIXL_PEER_EVENTS of them. That a peer is lost is seen without a transfer under way, once it was connected
 * with (makeConnection, a transfer, a message). From any thread; each event is given to one caller.
 */
NIXL_EXPORT nixl_status_t nixlPeerEvents(const nixlAgent &agent, std::vector<nixlPeerEvent> &events);

/** A transfer of a peer to or from this agent failed, and with it the notification that it would have
 * brought. */
struct nixlFailedNotif {
    std::string peer;    ///< the initiator
    nixl_blob_t message; ///< that does not come
    std::string why;     ///< how the transfer ended
};

/**
 * Appends what peers have told since the last call, oldest first: of agents of this implementation only, as
 * far as they can reach this one. What nobody takes is kept up to NIXL_NOTIF_QUEUE_BYTES. From any thread;
 * each is given to one caller.
 */
NIXL_EXPORT nixl_status_t nixlFailedNotifs(nixlAgent &agent, std::vector<nixlFailedNotif> &failed);

#endif
