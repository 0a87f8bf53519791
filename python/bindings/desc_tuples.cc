#include "desc_tuples.h"

#include <cstdint>
#include <stdexcept>
#include <utility>

#include "text.h"
#include "util/concat.h"

namespace py = pybind11;

namespace nixl::python {
namespace {

constexpr const char *kFieldNames[] = {"addr", "len", "dev_id"};

std::string
nameOf(Py_ssize_t position) {
    return position < 0 ? std::string("desc") : concat("descs[", position, "]");
}

[[noreturn]] void
raiseField(Py_ssize_t position, const char *field, py::handle value, const char *demand) {
    throw std::runtime_error(
        concat(nameOf(position), ": ", field, " is ", py::repr(value).cast<std::string>(), ", ", demand));
}

/// Any number that a field can hold, or the exception of one that it cannot.
std::uint64_t
convertField(PyObject *item, int field, Py_ssize_t position) {
    const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(item));
    if (!number) {
        PyErr_Clear();
        raiseField(position, kFieldNames[field], item, "not an integer");
    }
    const unsigned long long value = PyLong_AsUnsignedLongLong(number.ptr());
    if (value == static_cast<unsigned long long>(-1) && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        raiseField(position, kFieldNames[field], item, "not in 0 to 2^64-1");
    }
    return value;
}

std::uint64_t
readField(py::handle tuple, int field, Py_ssize_t position) {
    PyObject *item = PyTuple_GET_ITEM(tuple.ptr(), field);
    if (PyLong_CheckExact(item)) { // an int of up to 63 bits: almost all of them
        int overflow = 0;
        const long long value = PyLong_AsLongLongAndOverflow(item, &overflow);
        if (overflow == 0 && value >= 0)
            return static_cast<std::uint64_t>(value);
    }
    return convertField(item, field, position);
}

/// The three integers. The caller has counted the tuple's elements.
nixlBasicDesc
readBasic(py::handle tuple, Py_ssize_t position) {
    const std::uint64_t addr = readField(tuple, 0, position);
    const std::uint64_t len = readField(tuple, 1, position);
    return {addr, len, readField(tuple, 2, position)};
}

template<typename Desc>
void
checkFields(py::handle tuple, Py_ssize_t position) {
    constexpr int kFields = DescTuple<Desc>::kFields;
    if (PyTuple_GET_SIZE(tuple.ptr()) != kFields)
        throw py::value_error(concat(nameOf(position), ": a descriptor tuple must have exactly ", kFields,
                                     " elements ", DescTuple<Desc>::kLayout, ", not ",
                                     PyTuple_GET_SIZE(tuple.ptr())));
}

std::string
readText(py::handle tuple, const char *field, Py_ssize_t position) {
    PyObject *item = PyTuple_GET_ITEM(tuple.ptr(), 3);
    std::string text;
    if (!encodeText(item, text))
        raiseField(position, field, item, "neither str nor bytes");
    return text;
}

} // namespace

nixlBasicDesc
DescTuple<nixlBasicDesc>::read(py::handle tuple, Py_ssize_t position) {
    checkFields<nixlBasicDesc>(tuple, position);
    return readBasic(tuple, position);
}

py::tuple
DescTuple<nixlBasicDesc>::write(const nixlBasicDesc &desc) {
    return py::make_tuple(desc.addr, desc.len, desc.devId);
}

nixlBlobDesc
DescTuple<nixlBlobDesc>::read(py::handle tuple, Py_ssize_t position) {
    checkFields<nixlBlobDesc>(tuple, position);
    return {readBasic(tuple, position), readText(tuple, "meta", position)};
}

py::tuple
DescTuple<nixlBlobDesc>::write(const nixlBlobDesc &desc) {
    return py::make_tuple(desc.addr, desc.len, desc.devId, py::bytes(desc.metaInfo));
}

nixlRemoteDesc
DescTuple<nixlRemoteDesc>::read(py::handle tuple, Py_ssize_t position) {
    checkFields<nixlRemoteDesc>(tuple, position);
    return {readBasic(tuple, position), readText(tuple, "agent_name", position)};
}

py::tuple
DescTuple<nixlRemoteDesc>::write(const nixlRemoteDesc &desc) {
    return py::make_tuple(desc.addr, desc.len, desc.devId, decodeText(desc.remoteAgent));
}

} // namespace nixl::python
