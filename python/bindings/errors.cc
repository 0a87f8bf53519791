#include "errors.h"

#include <array>
#include <cstddef>
#include <string>

#include "nixl_ext.h"

namespace py = pybind11;

namespace nixl::python {
namespace {

struct ErrorClass {
    nixl_status_t status;
    const char *name;
    const char *doc;
};

constexpr std::array kErrorClasses{
    ErrorClass{NIXL_ERR_NOT_POSTED, "nixlNotPostedError", "The request was never posted."},
    ErrorClass{NIXL_ERR_INVALID_PARAM, "nixlInvalidParamError", "An argument is wrong; nothing was changed."},
    ErrorClass{NIXL_ERR_BACKEND, "nixlBackendError", "An engine failed or cannot do this."},
    ErrorClass{NIXL_ERR_NOT_FOUND, "nixlNotFoundError",
               "Unknown name, unregistered memory, or a stale list or request."},
    ErrorClass{NIXL_ERR_MISMATCH, "nixlMismatchError", "Bytes that are not what they should be."},
    ErrorClass{NIXL_ERR_NOT_ALLOWED, "nixlNotAllowedError", "Forbidden in the present state."},
    ErrorClass{NIXL_ERR_REPOST_ACTIVE, "nixlRepostActiveError", "The request is still in progress."},
    ErrorClass{NIXL_ERR_UNKNOWN, "nixlUnknownError", "No better description."},
    ErrorClass{NIXL_ERR_NOT_SUPPORTED, "nixlNotSupportedError", "Not offered here."},
    ErrorClass{NIXL_ERR_REMOTE_DISCONNECT, "nixlRemoteDisconnectError",
               "The peer died or closed the connection."},
    ErrorClass{NIXL_ERR_CANCELED, "nixlCancelledError", "Ended before it was done."},
    ErrorClass{NIXL_ERR_NO_TELEMETRY, "nixlNoTelemetryError", "Telemetry is off."},
};

/// The Python classes, at the same positions. The references live as long as the process.
std::array<PyObject *, kErrorClasses.size()> errorObjects{};

PyObject *
classOf(nixl_status_t status) {
    PyObject *unknown = nullptr;
    for (std::size_t i = 0; i < kErrorClasses.size(); ++i) {
        if (kErrorClasses[i].status == status)
            return errorObjects[i];
        if (kErrorClasses[i].status == NIXL_ERR_UNKNOWN)
            unknown = errorObjects[i];
    }
    return unknown;
}

} // namespace

void
defineErrors(py::module_ &module) {
    const std::string prefix = module.attr("__name__").cast<std::string>() + ".";
    for (std::size_t i = 0; i < kErrorClasses.size(); ++i) {
        const ErrorClass &error = kErrorClasses[i];
        PyObject *object =
            PyErr_NewExceptionWithDoc((prefix + error.name).c_str(), error.doc, PyExc_Exception, nullptr);
        if (object == nullptr)
            throw py::error_already_set();
        errorObjects[i] = object;
        module.attr(error.name) = py::handle(object);
    }
}

void
raiseStatus(nixl_status_t status, std::string_view cause) {
    std::string text = nixlEnumStrings::statusStr(status);
    if (!cause.empty())
        text.append(": ").append(cause);
    // A cause may quote names of peers, which are any bytes.
    const auto message = py::reinterpret_steal<py::object>(
        PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
    if (message)
        PyErr_SetObject(classOf(status), message.ptr());
    throw py::error_already_set();
}

nixl_status_t
checked(nixl_status_t status) {
    if (status < 0)
        raiseStatus(status, nixl_last_error());
    return status;
}

} // namespace nixl::python
