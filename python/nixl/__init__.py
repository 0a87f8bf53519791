"""Moves blocks of memory between processes, hosts and storage: an independent implementation of the NIXL interface.

`nixl_agent` is where to start. `nixl._api` holds the interface, `nixl._bindings` the C++ classes under it.
"""

from . import _foreign, _libucx
from ._api import (
    DEFAULT_COMM_PORT,
    nixl_agent,
    nixl_agent_config,
    nixl_backend_handle,
    nixl_prepped_dlist_handle,
    nixl_thread_sync_t,
    nixl_xfer_handle,
)
from ._bindings import __version__, alloc, nixlMemory, share_memfd

__all__ = [
    "DEFAULT_COMM_PORT",
    "__version__",
    "alloc",
    "nixlMemory",
    "nixl_agent",
    "nixl_agent_config",
    "nixl_backend_handle",
    "nixl_prepped_dlist_handle",
    "nixl_thread_sync_t",
    "nixl_xfer_handle",
    "share_memfd",
]

_foreign.warn_of_other_owner()
_libucx.announce()
