// Descriptors as tuples: (addr, len, dev_id), with metadata or an agent's name behind for the longer kinds.
#pragma once

#include <pybind11/pybind11.h>

#include "nixl_descriptors.h"

namespace nixl::python {

/// How a descriptor reads and writes its tuple. Messages call the tuple descs[position], or desc if
/// `position` is negative. Wrong number of elements: ValueError. A field that is not an integer of 0 to
/// 2^64-1, or not text: RuntimeError, as in NIXL.
template<typename Desc> struct DescTuple;

template<> struct DescTuple<nixlBasicDesc> {
    static constexpr int kFields = 3;
    static constexpr const char *kLayout = "(addr, len, dev_id)";
    static nixlBasicDesc read(pybind11::handle tuple, Py_ssize_t position);
    static pybind11::tuple write(const nixlBasicDesc &desc);
};

template<> struct DescTuple<nixlBlobDesc> {
    static constexpr int kFields = 4;
    static constexpr const char *kLayout = "(addr, len, dev_id, meta)";
    static nixlBlobDesc read(pybind11::handle tuple, Py_ssize_t position);
    static pybind11::tuple write(const nixlBlobDesc &desc);
};

template<> struct DescTuple<nixlRemoteDesc> {
    static constexpr int kFields = 4;
    static constexpr const char *kLayout = "(addr, len, dev_id, agent_name)";
    static nixlRemoteDesc read(pybind11::handle tuple, Py_ssize_t position);
    static pybind11::tuple write(const nixlRemoteDesc &desc);
};

} // namespace nixl::python
