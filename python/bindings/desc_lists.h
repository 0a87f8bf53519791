// Descriptor lists as Python objects.
#pragma once

#include <utility>

#include <pybind11/pybind11.h>

#include "nixl_descriptors.h"

namespace nixl::python {

/**
 * A list that Python owns. While a call of the library reads it, with other Python threads running, it
 * refuses to be changed. The GIL guards everything here.
 */
template<typename Desc> class BoundList {
public:
    explicit BoundList(nixlDescList<Desc> list) : list_(std::move(list)) {}

    BoundList(BoundList &&) = default;
    BoundList(const BoundList &) = delete;
    BoundList &operator=(const BoundList &) = delete;

    const nixlDescList<Desc> &
    list() const {
        return list_;
    }

    /// The list, to be changed before the GIL is released. Raises BufferError while a Reader lives.
    nixlDescList<Desc> &
    listToChange() {
        if (readers_ > 0)
            throw pybind11::buffer_error("the list is being read by a call in another thread");
        return list_;
    }

    /// Holds the list as it is. Made and destroyed with the GIL held.
    class Reader {
    public:
        explicit Reader(BoundList &bound) : bound_(bound) {
            ++bound_.readers_;
        }

        ~Reader() {
            --bound_.readers_;
        }

        Reader(const Reader &) = delete;
        Reader &operator=(const Reader &) = delete;

        const nixlDescList<Desc> &
        operator*() const {
            return bound_.list_;
        }

    private:
        BoundList &bound_;
    };

private:
    nixlDescList<Desc> list_;
    int readers_ = 0;
};

using BoundXferList = BoundList<nixlBasicDesc>;
using BoundRegList = BoundList<nixlBlobDesc>;
using BoundRemoteList = BoundList<nixlRemoteDesc>;

/// Adds nixlXferDList, nixlRegDList and nixlRemoteDList.
void defineDescLists(pybind11::module_ &module);

/// Adds the functions that turn lists into bytes for other processes and back.
void defineSerializing(pybind11::module_ &module);

} // namespace nixl::python
