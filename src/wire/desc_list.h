// Descriptor lists as bytes: as items of a larger container, or as a container of their own (pickled state).
#pragma once

#include <string>
#include <string_view>

#include "nixl_descriptors.h"
#include "util/status.h"
#include "wire/container.h"

namespace nixl {

/// Fewest bytes that an encoded list takes.
std::size_t leastListBytes();

void appendList(Writer &writer, const nixl_xfer_dlist_t &list);
void appendList(Writer &writer, const nixl_reg_dlist_t &list);

/// Reads a list at the reader's cursor and moves behind it. NIXL_ERR_MISMATCH, with the reader anywhere: not
/// a list of that kind, an unknown kind of memory, or cut off. Memory is taken only for descriptors that are
/// there.
Result<nixl_xfer_dlist_t> takeXferList(Reader &reader);
Result<nixl_reg_dlist_t> takeRegList(Reader &reader);

/// A container with one list: what NIXL's Python classes have as pickled state.
std::string serializeList(const nixl_xfer_dlist_t &list);
std::string serializeList(const nixl_reg_dlist_t &list);

/// Reads what serializeList() wrote; bytes behind the list are ignored. Errors as those of take...List().
Result<nixl_xfer_dlist_t> parseXferList(std::string_view bytes);
Result<nixl_reg_dlist_t> parseRegList(std::string_view bytes);

} // namespace nixl
