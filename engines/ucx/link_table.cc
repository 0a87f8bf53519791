#include "engines/ucx/link_table.h"

#include <string_view>

#include "engines/ucx/connection.h"
#include "util/log.h"

namespace nixl::ucx {

ucs_status_t
LinkTable::onPong(void *table, const void *header, std::size_t headerLength, void *, std::size_t,
                  const ucp_am_recv_param_t *) {
    const auto pong = decodePong({static_cast<const char *>(header), headerLength});
    if (!pong.ok()) {
        NIXL_LOG(kWarn, "UCX: a message is dropped: ", pong.status().message());
        return UCS_OK;
    }
    const auto &connections = static_cast<LinkTable *>(table)->connections_;
    if (const auto found = connections.find(pong.value().link); found != connections.end())
        found->second->answered(pong.value());
    return UCS_OK;
}

} // namespace nixl::ucx
