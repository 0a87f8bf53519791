#include "enums.h"

#include "nixl_types.h"

namespace py = pybind11;

namespace nixl::python {

// All types of the module are local to it: NIXL's own module may be loaded beside it and has types of the
// same names.
void
defineEnums(py::module_ &module) {
    py::enum_<nixl_mem_t>(module, "nixl_mem_t", "What kind of memory a descriptor names.", py::module_local())
        .value("DRAM_SEG", DRAM_SEG)
        .value("VRAM_SEG", VRAM_SEG)
        .value("BLK_SEG", BLK_SEG)
        .value("OBJ_SEG", OBJ_SEG)
        .value("FILE_SEG", FILE_SEG)
        .export_values();

    py::enum_<nixl_xfer_op_t>(module, "nixl_xfer_op_t", "Direction of a transfer, seen from who posts it.",
                              py::module_local())
        .value("NIXL_READ", NIXL_READ)
        .value("NIXL_WRITE", NIXL_WRITE)
        .export_values();

    py::enum_<nixl_status_t>(module, "nixl_status_t", "Result of a call; negative values are raised.",
                             py::module_local())
        .value("NIXL_IN_PROG", NIXL_IN_PROG)
        .value("NIXL_SUCCESS", NIXL_SUCCESS)
        .value("NIXL_ERR_NOT_POSTED", NIXL_ERR_NOT_POSTED)
        .value("NIXL_ERR_INVALID_PARAM", NIXL_ERR_INVALID_PARAM)
        .value("NIXL_ERR_BACKEND", NIXL_ERR_BACKEND)
        .value("NIXL_ERR_NOT_FOUND", NIXL_ERR_NOT_FOUND)
        .value("NIXL_ERR_MISMATCH", NIXL_ERR_MISMATCH)
        .value("NIXL_ERR_NOT_ALLOWED", NIXL_ERR_NOT_ALLOWED)
        .value("NIXL_ERR_REPOST_ACTIVE", NIXL_ERR_REPOST_ACTIVE)
        .value("NIXL_ERR_UNKNOWN", NIXL_ERR_UNKNOWN)
        .value("NIXL_ERR_NOT_SUPPORTED", NIXL_ERR_NOT_SUPPORTED)
        .value("NIXL_ERR_REMOTE_DISCONNECT", NIXL_ERR_REMOTE_DISCONNECT)
        .value("NIXL_ERR_CANCELED", NIXL_ERR_CANCELED)
        .value("NIXL_ERR_NO_TELEMETRY", NIXL_ERR_NO_TELEMETRY)
        .export_values();

    py::enum_<nixl_thread_sync_t>(module, "nixl_thread_sync_t",
                                  "Accepted for compatibility; agents are thread-safe in each mode.",
                                  py::module_local())
        .value("NIXL_THREAD_SYNC_NONE", nixl_thread_sync_t::NIXL_THREAD_SYNC_NONE)
        .value("NIXL_THREAD_SYNC_STRICT", nixl_thread_sync_t::NIXL_THREAD_SYNC_STRICT)
        .value("NIXL_THREAD_SYNC_RW", nixl_thread_sync_t::NIXL_THREAD_SYNC_RW)
        .value("NIXL_THREAD_SYNC_DEFAULT", nixl_thread_sync_t::NIXL_THREAD_SYNC_DEFAULT)
        .export_values();

    py::enum_<nixl_cost_t>(module, "nixl_cost_t", "How a cost estimate was found.", py::module_local())
        .value("NIXL_COST_ANALYTICAL_BACKEND", nixl_cost_t::ANALYTICAL_BACKEND)
        .export_values();
}

} // namespace nixl::python
