#include <string>

#include "agent.h"
#include "nixl_ext.h"
#include "text.h"
#include "util/concat.h"

namespace py = pybind11;

namespace nixl::python {
namespace {

using py::literals::operator""_a;

/// A text of the explanation, which may quote names that are any bytes.
template<typename Class, std::string Class::*Field>
py::str
textField(const Class &object) {
    return decodeText(object.*Field);
}

nixlPathExplanation
explain(const nixlAgent &agent, Handle request) {
    nixlPathExplanation explanation;
    checked(withoutGil([&] { return nixlExplain(agent, fromHandle<nixlXferReqH>(request), explanation); }));
    return explanation;
}

py::str
describeOption(const nixlPathOption &option) {
    return decodeText(concat("<nixlPathOption ", option.backend, " (", option.path, "), ",
                             option.chosen ? "chosen: " : "not chosen: ", option.reason, ">"));
}

} // namespace

void
defineExplanations(py::module_ &module, AgentClass &agent) {
    using Option = nixlPathOption;
    using Explanation = nixlPathExplanation;
    py::class_<Option>(module, "nixlPathOption", "One way to carry a transfer, taken or not.",
                       py::module_local())
        .def_property_readonly("backend", &textField<Option, &Option::backend>)
        .def_property_readonly("path", &textField<Option, &Option::path>)
        .def_readonly("chosen", &Option::chosen)
        .def_property_readonly("reason", &textField<Option, &Option::reason>)
        .def("__repr__", &describeOption);

    py::class_<Explanation>(module, "nixlPathExplanation", "How a request travels and why.",
                            py::module_local())
        .def_property_readonly("backend", &textField<Explanation, &Explanation::backend>)
        .def_property_readonly("path", &textField<Explanation, &Explanation::path>)
        .def_property_readonly("reason", &textField<Explanation, &Explanation::reason>)
        .def_readonly("blocks", &Explanation::blocks, "Descriptors after merging.")
        .def_readonly("bytes", &Explanation::bytes, "Payload of one post.")
        .def_property_readonly(
            "options", [](const Explanation &self) { return self.options; },
            "Everything that was considered, fastest first.")
        .def("__str__", [](const Explanation &self) { return decodeText(self.toString()); })
        .def("__repr__", [](const Explanation &self) {
            return decodeText(concat("<nixlPathExplanation ", self.backend, " (", self.path, "), ",
                                     self.blocks, " blocks, ", self.bytes, " bytes: ", self.reason, ">"));
        });

    agent.def("explain", &explain, "reqh"_a, "Which path the request takes, and why.");
}

} // namespace nixl::python
