// Has the names of UCX's functions and a version among its constants.
#include "engines/ucx/function_list.h"

__attribute__((used)) static const char kVersion[] = NIXL_VERSION;

#define NIXL_LABEL(prefix, name)                                                                             \
    asm(".text\n.globl " #prefix "_" #name "\n.type " #prefix "_" #name ", %function\n" #prefix "_" #name    \
        ":\n");
#ifndef NIXL_LACKING
NIXL_UCX_FUNCTIONS(NIXL_LABEL)
#else
NIXL_LABEL(ucp, get_version)
#endif
