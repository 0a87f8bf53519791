// The target's side: the socket of an engine and the peers that came in through it.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>

#include "engines/local/accessors.h"
#include "engines/local/endpoint.h"
#include "engines/local/host_process.h"
#include "engines/local/incoming.h"
#include "engines/local/settings.h"
#include "util/scoped_fd.h"
#include "util/status.h"

namespace nixl::local {

/// Lives on the loop of the process, except where methods say otherwise.
class Listener {
public:
    /// Starts to listen. From any thread.
    static Result<std::unique_ptr<Listener>> create(HostProcess &process, std::shared_ptr<Endpoint> endpoint,
                                                    const Settings &settings);

    /// From any thread but the loop's.
    ~Listener();

    /// Closes all connections and accepts no more; whoever could copy stays in accessors() until it cannot.
    /// From any thread.
    void stop();

    /// Who may copy.
    Accessors &
    accessors() {
        return accessors_;
    }

    HostProcess &
    process() const {
        return process_;
    }

    Endpoint &
    endpoint() const {
        return *endpoint_;
    }

    const Settings &
    settings() const {
        return settings_;
    }

    /// A connection is over; destroys it.
    void finishedFromLoop(Incoming &connection);

    /// Tells peers that memory is lent no more. From any thread.
    void memoryEnded(std::uint64_t id);

    /// Goes on reading messages after the inbox had been full. From any thread.
    void resume();

private:
    Listener(HostProcess &process, std::shared_ptr<Endpoint> endpoint, const Settings &settings,
             ScopedFd socket);

    void acceptFromLoop();
    void forEachFromLoop(const std::function<void(Incoming &)> &work);
    Status watchSocketFromLoop();

    HostProcess &process_;
    const std::shared_ptr<Endpoint> endpoint_;
    const Settings settings_;
    ScopedFd socket_;
    Accessors accessors_;
    std::unordered_map<Incoming *, std::unique_ptr<Incoming>> connections_;
    EventLoop::TimerId pause_ = 0; // until connections are accepted again
};

} // namespace nixl::local
