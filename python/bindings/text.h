// Names and messages: str or bytes from Python, bytes in the library.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <pybind11/pybind11.h>

namespace nixl::python {

/// An argument that takes str and bytes. A str is encoded as UTF-8; surrogates that stand for undecodable
/// bytes become those bytes again, so whatever decodeText() gave is accepted and means the same.
struct Text {
    std::string value;
};

/// str for bytes that are UTF-8 as a rule; other bytes become surrogates ("surrogateescape").
inline pybind11::str
decodeText(std::string_view bytes) {
    PyObject *text =
        PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape");
    if (text == nullptr)
        throw pybind11::error_already_set();
    return pybind11::reinterpret_steal<pybind11::str>(text);
}

/// Reads str, bytes or bytearray. False: it is something else; no Python error is set.
inline bool
encodeText(pybind11::handle source, std::string &bytes) {
    if (PyBytes_Check(source.ptr())) {
        bytes.assign(PyBytes_AS_STRING(source.ptr()),
                     static_cast<std::size_t>(PyBytes_GET_SIZE(source.ptr())));
        return true;
    }
    if (PyByteArray_Check(source.ptr())) {
        bytes.assign(PyByteArray_AS_STRING(source.ptr()),
                     static_cast<std::size_t>(PyByteArray_GET_SIZE(source.ptr())));
        return true;
    }
    if (!PyUnicode_Check(source.ptr()))
        return false;
    const auto encoded = pybind11::reinterpret_steal<pybind11::object>(
        PyUnicode_AsEncodedString(source.ptr(), "utf-8", "surrogateescape"));
    if (!encoded) {
        PyErr_Clear();
        return false;
    }
    return encodeText(encoded, bytes);
}

} // namespace nixl::python

template<> struct pybind11::detail::type_caster<nixl::python::Text> {
    PYBIND11_TYPE_CASTER(nixl::python::Text, const_name("str | bytes"));

    bool
    load(handle source, bool /*convert*/) {
        return source && nixl::python::encodeText(source, value.value);
    }

    static handle
    cast(const nixl::python::Text &text, return_value_policy /*policy*/, handle /*parent*/) {
        return nixl::python::decodeText(text.value).release();
    }
};
