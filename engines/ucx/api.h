// The functions of UCX that the engine calls, bound at run time: the library itself is linked against no UCX.
#pragma once

#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>

#include "engines/ucx/function_list.h"

// Exported by UCX since long, in no installed header.
extern "C" void ucs_debug_disable_signals(void);

namespace nixl::ucx {

/// Pointers to the functions of one loaded UCX, under their names without the prefix.
struct Api {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declared name in parentheses is a warning of g++
#define NIXL_UCX_MEMBER(prefix, name) decltype(&prefix##_##name) name = nullptr;
    NIXL_UCX_FUNCTIONS(NIXL_UCX_MEMBER)
#undef NIXL_UCX_MEMBER
};

} // namespace nixl::ucx
