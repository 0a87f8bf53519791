// nixl._utils: plain memory for programs and tests that have neither numpy nor torch.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include <pybind11/pybind11.h>

#include "gil.h"
#include "util/concat.h"

namespace py = pybind11;

namespace {

using py::literals::operator""_a;

constexpr std::size_t kAlignment = 4096;

void *
pointer(std::uintptr_t address, const char *name) {
    if (address == 0)
        throw py::value_error(nixl::concat(name, " is 0"));
    return reinterpret_cast<void *>(address);
}

std::uintptr_t
mallocPassthru(std::size_t size) {
    const std::size_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
    if (rounded < size)
        throw std::bad_alloc();
    void *memory = std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded);
    if (memory == nullptr)
        throw std::bad_alloc();
    return reinterpret_cast<std::uintptr_t>(memory);
}

void
freePassthru(std::uintptr_t address) {
    std::free(reinterpret_cast<void *>(address));
}

void
fill(std::uintptr_t address, std::size_t size) {
    if (size == 0)
        return;
    void *memory = pointer(address, "addr");
    nixl::python::withoutGil([&] { std::memset(memory, 0xBA, size); });
}

void
verifyTransfer(std::uintptr_t addressA, std::uintptr_t addressB, std::size_t size) {
    if (size == 0)
        return;
    const auto *a = static_cast<const unsigned char *>(pointer(addressA, "addr_a"));
    const auto *b = static_cast<const unsigned char *>(pointer(addressB, "addr_b"));
    const std::size_t at = nixl::python::withoutGil(
        [&] { return static_cast<std::size_t>(std::mismatch(a, a + size, b).first - a); });
    if (at == size)
        return;
    PyErr_SetString(PyExc_AssertionError,
                    nixl::concat("byte ", at, " of ", size, " differs: ", +a[at], " and ", +b[at]).c_str());
    throw py::error_already_set();
}

} // namespace

PYBIND11_MODULE(_utils, module) {
    module.doc() = "Plain memory by address: nothing checks that an address is valid.";
    module.def("malloc_passthru", &mallocPassthru, "size"_a,
               "Address of new memory, aligned to 4096 bytes; free_passthru() ends it.");
    module.def("free_passthru", &freePassthru, "addr"_a);
    module.def("ba_buf", &fill, "addr"_a, "size"_a, "Sets every byte to 0xBA.");
    module.def("verify_transfer", &verifyTransfer, "addr_a"_a, "addr_b"_a, "size"_a,
               "Raises AssertionError at the first byte that differs.");
}
