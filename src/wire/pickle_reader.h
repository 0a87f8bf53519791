// Pickles of descriptor lists, as Python programs send them in notifications. Written so that NIXL's
// pickle.loads reads them; read without any of pickle's power: one fixed sequence of opcodes, which names one
// of the list classes and gives it a bytes state, is all that is admitted. Nothing is looked up or executed.
#pragma once

#include <string>
#include <string_view>

#include "util/status.h"

namespace nixl {

enum class PickledKind {
    kXferList, ///< nixlXferDList; its state is read by parseXferList() of wire/desc_list.h
    kRegList,  ///< nixlRegDList; parseRegList()
};

struct PickledList {
    PickledKind kind;
    std::string state;
};

/// What pickle.dumps() of a list gives in protocols 2 to 5, by this implementation or NIXL's wheels. Bytes
/// behind the pickle are ignored, as pickle.loads does. NIXL_ERR_MISMATCH: anything else; the message has the
/// offending opcode or class and its position. Bounded by the length of `bytes` in time and memory. The state
/// is not looked into.
Result<PickledList> readPickledList(std::string_view bytes);

/// A pickle of protocol 4, at most 64 bytes longer than `state`. Its class belongs to the module
/// `nixl._bindings`, which every installation has.
std::string writePickledList(PickledKind kind, std::string_view state);

} // namespace nixl
