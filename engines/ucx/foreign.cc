#include "engines/ucx/foreign.h"

#include <dlfcn.h>
#include <link.h>

#include <cctype>
#include <string_view>

namespace nixl::ucx {

namespace {

constexpr std::string_view kParts[] = {"libucp", "libuct", "libucs", "libucm"};

} // namespace

void
classifyLoaded(const std::string &path, ForeignUcx &out) {
    const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
    for (const std::string_view part : kParts) {
        if (name.substr(0, part.size()) != part)
            continue;
        const std::string_view rest = name.substr(part.size());
        if (rest.substr(0, 5) == ".so.0" || rest == ".so")
            out.sameName.push_back(path);
        else if (rest.substr(0, 1) == "-" && rest.find(".so") != std::string_view::npos)
            out.otherName.push_back(path);
    }
}

ForeignUcx
findForeignUcx() {
    ForeignUcx out;
    const auto visit = [](dl_phdr_info *info, std::size_t, void *data) {
        if (info->dlpi_name)
            classifyLoaded(info->dlpi_name, *static_cast<ForeignUcx *>(data));
        return 0;
    };
    ::dl_iterate_phdr(visit, &out);
    return out;
}

bool
ucxIsGlobal() {
    return ::dlsym(RTLD_DEFAULT, "ucp_init_version") != nullptr ||
           ::dlsym(RTLD_DEFAULT, "ucs_log_dispatch") != nullptr;
}

} // namespace nixl::ucx
