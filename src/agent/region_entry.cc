#include "agent/region_entry.h"

#include "util/concat.h"

namespace nixl {

std::string
describe(nixl_mem_t memory, const nixlBasicDesc &desc) {
    return concat(nixlEnumStrings::memTypeStr(memory), " ", Hex{desc.addr}, " + ", desc.len, " (device ",
                  desc.devId, ")");
}

} // namespace nixl
