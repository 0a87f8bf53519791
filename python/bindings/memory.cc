// Memory that other processes of this host can map.
#include <utility>

#include <pybind11/pybind11.h>

#include "agent.h"
#include "errors.h"
#include "gil.h"
#include "nixl_ext.h"
#include "util/concat.h"

namespace py = pybind11;

namespace nixl::python {
namespace {

using py::literals::operator""_a;

nixlMemory
alloc(long long bytes, bool hugePages) {
    if (bytes <= 0)
        raiseStatus(NIXL_ERR_INVALID_PARAM, concat("memory of ", bytes, " bytes was asked for"));
    nixlMemory memory;
    checked(withoutGil([&] { return nixlAlloc(static_cast<std::size_t>(bytes), memory, hugePages); }));
    return memory;
}

/// The result holds the buffer, so that its owner cannot end the mapping.
py::object
shareMemfd(int fd, const py::object &buffer) {
    const py::memoryview view(buffer);
    const Py_buffer &bytes = *PyMemoryView_GET_BUFFER(view.ptr());
    if (!PyBuffer_IsContiguous(&bytes, 'C') || bytes.readonly != 0)
        throw py::value_error("the buffer must be contiguous and writable");
    nixlMemory memory;
    checked(withoutGil(
        [&] { return nixlShareMemfd(fd, bytes.buf, static_cast<std::size_t>(bytes.len), memory); }));
    py::object shared = py::cast(std::move(memory));
    py::detail::keep_alive_impl(shared, view);
    return shared;
}

py::buffer_info
bufferOf(const nixlMemory &memory) {
    return {static_cast<unsigned char *>(memory.data()), static_cast<py::ssize_t>(memory.size())};
}

std::uintptr_t
addressOf(const nixlMemory &memory) {
    return reinterpret_cast<std::uintptr_t>(memory.data());
}

} // namespace

void
defineMemory(py::module_ &module) {
    py::class_<nixlMemory>(
        module, "nixlMemory",
        "Memory that other processes of this host can map. A buffer of bytes: views, arrays "
        "and tensors made of it keep it.",
        py::buffer_protocol(), py::module_local())
        .def_buffer(&bufferOf)
        .def("__len__", &nixlMemory::size)
        .def_property_readonly("nbytes", &nixlMemory::size, "Bytes asked for.")
        .def_property_readonly("address", &addressOf, "Of the first byte.")
        .def_property_readonly("page_size", &nixlMemory::pageSize, "Bytes of a page.")
        .def_property_readonly("note", &nixlMemory::note,
                               "Why there are no huge pages although they were asked for; else empty.")
        .def("__repr__", [](const nixlMemory &self) {
            return concat("<nixlMemory ", self.size(), " bytes at ", Hex{addressOf(self)}, ">");
        });
    module.def("alloc", &alloc, "nbytes"_a, py::kw_only(), "huge_pages"_a = false,
               "Makes memory that other processes can map, so that transfers between them are plain copies. "
               "After a fork, parent and child share its bytes.");
    module.def("share_memfd", &shareMemfd, "fd"_a, "buffer"_a,
               "Lets other processes map memory that is mapped from a memfd sealed with F_SEAL_SHRINK; holds "
               "the buffer. Before the memory is registered.");
}

} // namespace nixl::python
