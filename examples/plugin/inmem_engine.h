// A whole plugin in the south-bound interface: it moves host memory between agents of one process.
//
// An engine enters itself and its registrations into a directory of the process; what it tells its peers are
// the numbers under which they are found there. A thread per engine does the copying, so postXfer answers
// NIXL_IN_PROG.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "backend/backend_engine.h"
#include "directory.h"

class InMemRequest;

class InMemEngine : public nixlBackendEngine {
public:
    static constexpr const char *kDefaultChunk = "1048576";

    /// Reads the parameter chunk_size: bytes that are copied before others get a turn.
    explicit InMemEngine(const nixlBackendInitParams *init_params);
    ~InMemEngine() override;

    bool supportsRemote() const override;
    bool supportsLocal() const override;
    bool supportsNotif() const override;
    nixl_mem_list_t getSupportedMems() const override;

    nixl_status_t registerMem(const nixlBlobDesc &mem, const nixl_mem_t &nixl_mem,
                              nixlBackendMD *&out) override;
    nixl_status_t deregisterMem(nixlBackendMD *meta) override;
    nixl_status_t getPublicData(const nixlBackendMD *meta, std::string &str) const override;
    nixl_status_t loadLocalMD(nixlBackendMD *input, nixlBackendMD *&output) override;
    nixl_status_t loadRemoteMD(const nixlBlobDesc &input, const nixl_mem_t &nixl_mem,
                               const std::string &remote_agent, nixlBackendMD *&output) override;
    nixl_status_t unloadMD(nixlBackendMD *input) override;

    nixl_status_t getConnInfo(std::string &str) const override;
    nixl_status_t loadRemoteConnInfo(const std::string &remote_agent,
                                     const std::string &remote_conn_info) override;
    nixl_status_t connect(const std::string &remote_agent) override;
    nixl_status_t disconnect(const std::string &remote_agent) override;

    nixl_status_t prepXfer(const nixl_xfer_op_t &operation, const nixl_meta_dlist_t &local,
                           const nixl_meta_dlist_t &remote, const std::string &remote_agent,
                           nixlBackendReqH *&handle,
                           const nixl_opt_b_args_t *opt_args = nullptr) const override;
    nixl_status_t postXfer(const nixl_xfer_op_t &operation, const nixl_meta_dlist_t &local,
                           const nixl_meta_dlist_t &remote, const std::string &remote_agent,
                           nixlBackendReqH *&handle,
                           const nixl_opt_b_args_t *opt_args = nullptr) const override;
    nixl_status_t checkXfer(nixlBackendReqH *handle) const override;
    nixl_status_t releaseReqH(nixlBackendReqH *handle) const override;
    nixl_status_t estimateXferCost(const nixl_xfer_op_t &operation, const nixl_meta_dlist_t &local,
                                   const nixl_meta_dlist_t &remote, const std::string &remote_agent,
                                   nixlBackendReqH *const &handle, std::chrono::microseconds &duration,
                                   std::chrono::microseconds &err_margin, nixl_cost_t &method,
                                   const nixl_opt_args_t *extra_params = nullptr) const override;

    nixl_status_t getNotifs(notif_list_t &notif_list) override;
    nixl_status_t genNotif(const std::string &remote_agent, const std::string &msg) const override;

private:
    /// The number of a loaded peer or of this agent itself.
    std::optional<inmem::MemberId> find(const std::string &agent) const;

    // The thread's side.
    void copyLoop();
    nixl_status_t run(const InMemRequest &request) const;
    nixl_status_t copyBlock(const InMemRequest &request, inmem::Place from, inmem::Place to,
                            std::size_t length) const;

    std::size_t chunk_ = 0;
    inmem::Member self_;
    std::map<std::string, inmem::MemberId> peers_; // loaded ones; calls into an engine do not overlap

    // The thread and its queue. They change in const calls, as requests are posted by those.
    mutable std::mutex mutex_;
    mutable std::condition_variable posted_;   // for the thread
    mutable std::condition_variable finished_; // for releaseReqH
    mutable std::deque<InMemRequest *> queue_; // guarded by mutex_
    bool stop_ = false;                        // guarded by mutex_
    std::thread thread_;
};
