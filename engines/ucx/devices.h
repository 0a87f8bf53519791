// The network devices of this host, under the names that UCX knows them by.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "util/status.h"

namespace nixl::ucx {

struct HostDevices {
    std::set<std::string> interfaces;               ///< "eth0"
    std::map<std::string, std::set<unsigned>> rdma; ///< "mlx5_0" with the numbers of its ports
};

/// What `sysfs` tells; what cannot be read counts as not there.
HostDevices readHostDevices(const std::string &sysfs = "/sys");

/// The names of UCX for a list that a program gave: names separated by commas or spaces, each an interface,
/// an RDMA device, or a port of one, "mlx5_0:2"; without a port the first is meant. "all" alone stands for
/// all devices. Names that come twice count once. NIXL_ERR_INVALID_PARAM: a name that this host does not
/// have; the message lists those that it has.
Result<std::vector<std::string>> resolveDevices(std::string_view list, const HostDevices &host);

} // namespace nixl::ucx
