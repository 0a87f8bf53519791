// Arrays of integers by the buffer protocol: numpy arrays, memoryviews, whatever exports its memory. Nothing
// here needs numpy.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <pybind11/pybind11.h>

namespace nixl::python {

/// An argument that must export a buffer; what it holds is judged by whoever reads it.
struct ArrayArgument {
    pybind11::object object;
};

/// An argument that names indices: a buffer or anything iterable.
struct IndexArgument {
    pybind11::object object;
};

/// A buffer that stays exported, so its memory stays in place, as long as this lives. Needs the GIL.
class BufferView {
public:
    /// Raises what the object raises if it has no strided buffer.
    explicit BufferView(pybind11::handle object);
    ~BufferView();
    BufferView(const BufferView &) = delete;
    BufferView &operator=(const BufferView &) = delete;

    const Py_buffer &
    get() const {
        return view_;
    }

private:
    Py_buffer view_{};
};

/// An N x `columns` array of 64-bit integers in C order and native byte order.
class IntegerTable {
public:
    /// Raises ValueError, naming the demand that the array does not meet.
    IntegerTable(const ArrayArgument &array, int columns);

    std::size_t
    rows() const {
        return rows_;
    }

    /// The integers, row after row.
    const std::byte *
    data() const {
        return static_cast<const std::byte *>(view_.get().buf);
    }

private:
    BufferView view_;
    std::size_t rows_ = 0;
};

/// Indices as the library takes them. A contiguous array of int is used in place: it must not be written to
/// meanwhile. Everything else is converted, element by element.
class Indices {
public:
    /**
     * @param name  of the argument, for messages
     * Raises ValueError if it is not a one-dimensional collection of integers, nixlInvalidParamError if an
     * element is negative or larger than an int holds; both name the position.
     */
    Indices(const IndexArgument &argument, const char *name);

    std::span<const int>
    span() const {
        return indices_;
    }

private:
    void readBuffer(const char *name);
    void readIterable(pybind11::handle object, const char *name);

    std::unique_ptr<BufferView> view_;
    std::vector<int> converted_;
    std::span<const int> indices_;
};

} // namespace nixl::python

template<> struct pybind11::detail::type_caster<nixl::python::ArrayArgument> {
    PYBIND11_TYPE_CASTER(nixl::python::ArrayArgument, const_name("typing_extensions.Buffer"));

    bool
    load(handle source, bool /*convert*/) {
        if (!source || PyObject_CheckBuffer(source.ptr()) == 0)
            return false;
        value.object = reinterpret_borrow<object>(source);
        return true;
    }
};

template<> struct pybind11::detail::type_caster<nixl::python::IndexArgument> {
    PYBIND11_TYPE_CASTER(
        nixl::python::IndexArgument,
        const_name("collections.abc.Iterable[typing.SupportsIndex] | typing_extensions.Buffer"));

    bool
    load(handle source, bool /*convert*/) {
        if (!source)
            return false;
        value.object = reinterpret_borrow<object>(source);
        return true;
    }
};
