#include "desc_lists.h"

#include <climits>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include <pybind11/operators.h>

#include "arrays.h"
#include "desc_tuples.h"
#include "errors.h"
#include "util/concat.h"
#include "wire/desc_list.h"
#include "wire/pickle_reader.h"

namespace py = pybind11;

namespace nixl::python {
namespace {

using py::literals::operator""_a;

// An N x 3 array of 64-bit integers is what a list of nixlBasicDesc holds.
static_assert(std::is_trivially_copyable_v<nixlBasicDesc> && sizeof(nixlBasicDesc) == 24);

template<typename Desc>
nixlDescList<Desc>
readTuples(nixl_mem_t type, const py::list &descs) {
    nixlDescList<Desc> list(type);
    list.reserve(descs.size());
    // A field's __index__ may change the list, so its size is read anew and each tuple is held.
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(descs.ptr()); ++i) {
        const auto item = py::reinterpret_borrow<py::object>(PyList_GET_ITEM(descs.ptr(), i));
        if (PyTuple_Check(item.ptr()) == 0)
            throw py::type_error(concat("descs[", i, "] must be a tuple ", DescTuple<Desc>::kLayout, ", not ",
                                        Py_TYPE(item.ptr())->tp_name));
        if (i == INT_MAX)
            throw py::value_error(concat("descs has more than ", INT_MAX, " elements"));
        list.emplace(DescTuple<Desc>::read(item, i));
    }
    return list;
}

nixl_xfer_dlist_t
readXferTable(nixl_mem_t type, const ArrayArgument &descs) {
    const IntegerTable table(descs, 3);
    nixl_xfer_dlist_t list(type, static_cast<int>(table.rows()));
    if (table.rows() > 0)
        std::memcpy(&list[0], table.data(), table.rows() * sizeof(nixlBasicDesc));
    return list;
}

nixl_reg_dlist_t
readRegTable(nixl_mem_t type, const ArrayArgument &descs) {
    const nixl_xfer_dlist_t plain = readXferTable(type, descs);
    nixl_reg_dlist_t list(type);
    list.reserve(static_cast<std::size_t>(plain.descCount()));
    for (const nixlBasicDesc &desc : plain)
        list.emplace(desc, nixl_blob_t());
    return list;
}

/// A list of `size` descriptors of zeros.
template<typename Desc>
BoundList<Desc>
makeZeroed(nixl_mem_t type, int size) {
    if (size < 0)
        throw py::value_error(concat("init_size is ", size));
    return BoundList<Desc>(nixlDescList<Desc>(type, size));
}

/// Position in the list of a Python index, which may count from the end.
template<typename Desc>
unsigned int
positionOf(const nixlDescList<Desc> &list, Py_ssize_t index) {
    const Py_ssize_t position = index < 0 ? index + list.descCount() : index;
    if (position < 0 || position >= list.descCount())
        throw py::index_error(concat("index ", index, " of a list of ", list.descCount(), " descriptors"));
    return static_cast<unsigned int>(position);
}

template<typename Desc>
std::string
describe(const char *name, const nixlDescList<Desc> &list) {
    std::size_t bytes = 0;
    for (const Desc &desc : list)
        bytes += desc.len;
    return concat("<", name, " ", nixlEnumStrings::memTypeStr(list.getType()), ", ", list.descCount(),
                  list.descCount() == 1 ? " descriptor, " : " descriptors, ", bytes, " bytes>");
}

template<typename Desc>
py::typing::Iterator<py::tuple>
iterate(const py::object &list) {
    PyObject *iterator = PySeqIter_New(list.ptr());
    if (iterator == nullptr)
        throw py::error_already_set();
    return py::reinterpret_steal<py::typing::Iterator<py::tuple>>(iterator);
}

template<typename Desc> using ListClass = py::class_<BoundList<Desc>>;

/// What the three classes have in common.
template<typename Desc>
ListClass<Desc>
defineList(py::module_ &module, const char *name, const char *doc) {
    using List = BoundList<Desc>;
    using Tuple = DescTuple<Desc>;
    ListClass<Desc> list(module, name, doc, py::module_local());
    list.def(py::init(&makeZeroed<Desc>), "type"_a, "init_size"_a = 0)
        .def("descCount", [](const List &self) { return self.list().descCount(); })
        .def("isEmpty", [](const List &self) { return self.list().isEmpty(); })
        .def("getType", [](const List &self) { return self.list().getType(); })
        .def("clear", [](List &self) { self.listToChange().clear(); })
        .def(
            "remDesc", [](List &self, int index) { self.listToChange().remDesc(index); }, "index"_a)
        .def("print", [](const List &self) { self.list().print(); })
        .def("__len__", [](const List &self) { return self.list().descCount(); })
        // A list is something even if it is empty: programs test for the absence of a list this way.
        .def("__bool__", [](const List &) { return true; })
        .def("__iter__", &iterate<Desc>)
        .def(
            "__getitem__",
            [](const List &self, Py_ssize_t index) {
                return Tuple::write(self.list()[positionOf(self.list(), index)]);
            },
            "index"_a)
        .def(
            "__setitem__",
            [](List &self, Py_ssize_t index, const py::tuple &desc) {
                Desc read = Tuple::read(desc, -1);
                nixlDescList<Desc> &target = self.listToChange();
                target[positionOf(target, index)] = std::move(read);
            },
            "index"_a, "desc"_a)
        .def(
            "__eq__", [](const List &self, const List &other) { return self.list() == other.list(); },
            py::is_operator(), "other"_a)
        .def("__repr__", [name](const List &self) { return describe(name, self.list()); });
    for (const char *append : {"addDesc", "append"}) {
        list.def(
            append,
            [](List &self, const py::tuple &desc) {
                Desc read = Tuple::read(desc, -1);
                if (self.list().descCount() == INT_MAX)
                    throw py::value_error(concat("the list holds ", INT_MAX, " descriptors already"));
                self.listToChange().addDesc(read);
            },
            "desc"_a);
    }
    list.attr("__hash__") = py::none();
    return list;
}

template<typename Desc>
void
defineIndex(ListClass<Desc> &list) {
    list.def(
        "index",
        [](const BoundList<Desc> &self, const py::tuple &desc) {
            const Desc wanted = DescTuple<Desc>::read(desc, -1);
            const int found = self.list().getIndex(wanted);
            if (found < 0)
                raiseStatus(NIXL_ERR_NOT_FOUND, concat("no descriptor (", wanted.addr, ", ", wanted.len, ", ",
                                                       wanted.devId, ") in the list"));
            return found;
        },
        "desc"_a, "Position of the first descriptor of this address, length and device.");
}

template<typename List>
List
valueOrRaise(Result<List> result) {
    if (!result.ok())
        raiseStatus(result.status().code(), result.status().message());
    return std::move(result).value();
}

template<typename Desc>
void
definePickling(ListClass<Desc> &list, Result<nixlDescList<Desc>> (*parse)(std::string_view)) {
    list.def(py::pickle([](const BoundList<Desc> &self) { return py::bytes(serializeList(self.list())); },
                        [parse](const py::bytes &state) {
                            return BoundList<Desc>(valueOrRaise(parse(static_cast<std::string_view>(state))));
                        }));
}

py::bytes
serializeXfer(const BoundXferList &descs) {
    return writePickledList(PickledKind::kXferList, serializeList(descs.list()));
}

py::bytes
serializeReg(const BoundRegList &descs) {
    return writePickledList(PickledKind::kRegList, serializeList(descs.list()));
}

using AnyList = py::typing::Union<BoundXferList, BoundRegList>;

AnyList
deserialize(const py::bytes &serialized) {
    const PickledList pickled = valueOrRaise(readPickledList(static_cast<std::string_view>(serialized)));
    if (pickled.kind == PickledKind::kXferList)
        return AnyList(py::cast(BoundXferList(valueOrRaise(parseXferList(pickled.state)))));
    return AnyList(py::cast(BoundRegList(valueOrRaise(parseRegList(pickled.state)))));
}

} // namespace

void
defineDescLists(py::module_ &module) {
    // All classes first, so that signatures which name several of them are readable.
    auto xfer = defineList<nixlBasicDesc>(module, "nixlXferDList",
                                          "Descriptors (addr, len, dev_id) of one kind of memory.");
    auto reg = defineList<nixlBlobDesc>(module, "nixlRegDList",
                                        "Descriptors (addr, len, dev_id, meta) of one kind of memory.");
    auto remote = defineList<nixlRemoteDesc>(
        module, "nixlRemoteDList", "Descriptors (addr, len, dev_id, agent_name) of one kind of memory.");

    xfer.def(py::init([](nixl_mem_t type, const ArrayArgument &descs) {
                 return BoundXferList(readXferTable(type, descs));
             }),
             "type"_a, "descs"_a, "From a C-contiguous Nx3 array of uint64 or int64.");
    xfer.def(py::init([](nixl_mem_t type, const py::list &descs) {
                 return BoundXferList(readTuples<nixlBasicDesc>(type, descs));
             }),
             "type"_a, "descs"_a, "From a list of tuples.");
    reg.def(py::init([](nixl_mem_t type, const ArrayArgument &descs) {
                return BoundRegList(readRegTable(type, descs));
            }),
            "type"_a, "descs"_a, "From a C-contiguous Nx3 array of uint64 or int64; no meta.");
    reg.def(py::init([](nixl_mem_t type, const py::list &descs) {
                return BoundRegList(readTuples<nixlBlobDesc>(type, descs));
            }),
            "type"_a, "descs"_a, "From a list of tuples.");
    remote.def(py::init([](nixl_mem_t type, const py::list &descs) {
                   return BoundRemoteList(readTuples<nixlRemoteDesc>(type, descs));
               }),
               "type"_a, "descs"_a, "From a list of tuples.");

    reg.def(
        "trim", [](const BoundRegList &self) { return BoundXferList(self.list().trim()); },
        "The same list without meta.");
    defineIndex(xfer);
    defineIndex(reg);
    definePickling(xfer, &parseXferList);
    definePickling(reg, &parseRegList);
}

void
defineSerializing(py::module_ &module) {
    module.def("serialize_descs", &serializeXfer, "descs"_a,
               "Bytes of a list that deserialize_descs() and NIXL's pickle.loads() read.");
    module.def("serialize_descs", &serializeReg, "descs"_a);
    module.def(
        "deserialize_descs", &deserialize, "serialized"_a,
        "The list in the bytes of serialize_descs() or of NIXL. Nothing in the bytes is executed; anything "
        "but a list raises nixlMismatchError.");
}

} // namespace nixl::python
