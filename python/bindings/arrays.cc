#include "arrays.h"

#include <bit>
#include <climits>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "errors.h"
#include "util/concat.h"

namespace py = pybind11;

namespace nixl::python {
namespace {

/// Element type of a buffer of integers.
struct IntegerFormat {
    bool isSigned = false;
    bool swapped = false; ///< the other byte order
};

/// Understands the struct-module codes of single integers; nothing for any other element.
std::optional<IntegerFormat>
parseFormat(const char *format) {
    std::string_view code = format == nullptr ? "B" : format;
    IntegerFormat parsed;
    constexpr std::string_view kOrders = "@=<>!";
    if (!code.empty() && kOrders.find(code.front()) != std::string_view::npos) {
        const bool big = code.front() == '>' || code.front() == '!';
        const bool little = code.front() == '<';
        parsed.swapped = std::endian::native == std::endian::little ? big : little;
        code.remove_prefix(1);
    }
    if (code.size() != 1)
        return std::nullopt;
    if (std::string_view("bhilqn").find(code.front()) != std::string_view::npos)
        parsed.isSigned = true;
    else if (std::string_view("BHILQN").find(code.front()) == std::string_view::npos)
        return std::nullopt;
    return parsed;
}

template<typename Unsigned>
std::uint64_t
loadUnsigned(const char *bytes) {
    Unsigned value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

/// The integer at `bytes`. REQUIRES: size is 1, 2, 4 or 8. Unsigned values above INT64_MAX come out as
/// INT64_MAX, which is as far out of an int's range.
std::int64_t
readInteger(const char *bytes, std::size_t size, IntegerFormat format) {
    std::uint64_t value = 0;
    switch (size) {
    case 1:
        value = loadUnsigned<std::uint8_t>(bytes);
        break;
    case 2:
        value = loadUnsigned<std::uint16_t>(bytes);
        break;
    case 4:
        value = loadUnsigned<std::uint32_t>(bytes);
        break;
    default:
        value = loadUnsigned<std::uint64_t>(bytes);
        break;
    }
    const std::size_t unused = 64 - 8 * size;
    if (format.swapped)
        value = __builtin_bswap64(value) >> unused;
    if (format.isSigned)
        return static_cast<std::int64_t>(value << unused) >> unused;
    return value > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(value);
}

[[noreturn]] void
raiseRange(const char *name, std::size_t position, std::string_view value) {
    raiseStatus(NIXL_ERR_INVALID_PARAM,
                concat(name, "[", position, "] is ", value, "; an index is 0 to ", INT_MAX));
}

int
checkedIndex(std::int64_t value, const char *name, std::size_t position) {
    if (value == INT64_MAX)
        raiseRange(name, position, "2^63-1 or more");
    if (value < 0 || value > INT_MAX)
        raiseRange(name, position, std::to_string(value));
    return static_cast<int>(value);
}

/// An element of a list as an int.
int
indexFromObject(py::handle element, const char *name, std::size_t position) {
    const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(element.ptr()));
    if (!number) {
        PyErr_Clear();
        throw py::value_error(
            concat(name, "[", position, "] is no integer but a ", Py_TYPE(element.ptr())->tp_name));
    }
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
    if (overflow != 0)
        raiseRange(name, position, py::str(number).cast<std::string>());
    return checkedIndex(value, name, position);
}

} // namespace

BufferView::BufferView(py::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_STRIDES | PyBUF_FORMAT) != 0)
        throw py::error_already_set();
}

BufferView::~BufferView() {
    PyBuffer_Release(&view_);
}

IntegerTable::IntegerTable(const ArrayArgument &array, int columns) : view_(array.object) {
    const Py_buffer &view = view_.get();
    const auto refuse = [&](const auto &...why) {
        throw py::value_error(
            concat("descs must be a Nx", columns, " numpy array of uint64 or int64, ", why...));
    };
    if (view.ndim != 2)
        refuse("not of ", view.ndim, " dimensions");
    if (view.shape[1] != columns)
        refuse("not ", view.shape[0], "x", view.shape[1]);
    const std::optional<IntegerFormat> format = parseFormat(view.format);
    if (!format || view.itemsize != 8 || format->swapped)
        refuse("not of the element type '", view.format == nullptr ? "B" : view.format, "'");
    if (PyBuffer_IsContiguous(&view, 'C') == 0)
        throw py::value_error(concat("descs must be a C-contiguous numpy array; this one has strides of ",
                                     view.strides[0], " and ", view.strides[1], " bytes"));
    if (view.shape[0] > INT_MAX)
        throw py::value_error(concat("descs has ", view.shape[0], " rows; a list holds ", INT_MAX));
    rows_ = static_cast<std::size_t>(view.shape[0]);
}

Indices::Indices(const IndexArgument &argument, const char *name) {
    py::handle object = argument.object;
    const bool text =
        PyUnicode_Check(object.ptr()) || PyBytes_Check(object.ptr()) || PyByteArray_Check(object.ptr());
    if (text)
        throw py::value_error(
            concat(name, " must be a list or an array of integers, not ", Py_TYPE(object.ptr())->tp_name));
    if (PyObject_CheckBuffer(object.ptr()) != 0) {
        view_ = std::make_unique<BufferView>(object);
        readBuffer(name);
    } else {
        readIterable(object, name);
    }
}

void
Indices::readBuffer(const char *name) {
    const Py_buffer &view = view_->get();
    if (view.ndim != 1)
        throw py::value_error(concat(name, " must be a 1D array, not one of ", view.ndim, " dimensions"));
    const std::optional<IntegerFormat> format = parseFormat(view.format);
    if (!format || (view.itemsize & (view.itemsize - 1)) != 0 || view.itemsize > 8)
        throw py::value_error(concat(name, " must be an array of integers, not of the element type '",
                                     view.format == nullptr ? "B" : view.format, "'"));
    const auto count = static_cast<std::size_t>(view.shape[0]);
    const auto size = static_cast<std::size_t>(view.itemsize);
    if (format->isSigned && !format->swapped && size == sizeof(int) &&
        PyBuffer_IsContiguous(&view, 'C') != 0 &&
        reinterpret_cast<std::uintptr_t>(view.buf) % alignof(int) == 0) {
        indices_ = {static_cast<const int *>(view.buf), count};
        return;
    }
    converted_.reserve(count);
    const char *element = static_cast<const char *>(view.buf);
    for (std::size_t i = 0; i < count; ++i, element += view.strides[0])
        converted_.push_back(checkedIndex(readInteger(element, size, *format), name, i));
    indices_ = converted_;
    view_.reset();
}

void
Indices::readIterable(py::handle object, const char *name) {
    const auto sequence = py::reinterpret_steal<py::object>(PySequence_Fast(object.ptr(), ""));
    if (!sequence) {
        PyErr_Clear();
        throw py::value_error(
            concat(name, " must be a list or an array of integers, not ", Py_TYPE(object.ptr())->tp_name));
    }
    // An element's __index__ may change the list, so its size is read anew and each element is held.
    converted_.reserve(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(sequence.ptr())));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.ptr()); ++i) {
        const auto element = py::reinterpret_borrow<py::object>(PySequence_Fast_GET_ITEM(sequence.ptr(), i));
        converted_.push_back(indexFromObject(element, name, static_cast<std::size_t>(i)));
    }
    indices_ = converted_;
}

} // namespace nixl::python
