#include <chrono>
#include <cstdint>
#include <string>

#include <pybind11/chrono.h>

#include "agent.h"
#include "nixl_params.h"
#include "util/concat.h"

namespace py = pybind11;

namespace nixl::python {
namespace {

using py::literals::operator""_a;
using Config = nixlAgentConfig;
using Telemetry = nixlXferTelemetry;

std::string
describeConfig(const Config &config) {
    const auto word = [](bool value) { return value ? "True" : "False"; };
    return concat("<nixlAgentConfig useProgThread=", word(config.useProgThread),
                  " useListenThread=", word(config.useListenThread), " listenPort=", config.listenPort,
                  " syncMode=", static_cast<int>(config.syncMode),
                  " captureTelemetry=", word(config.captureTelemetry), ">");
}

std::string
describeTelemetry(const Telemetry &telemetry) {
    return concat("<nixlXferTelemetry startTime=", telemetry.startTime.count(),
                  " postDuration=", telemetry.postDuration.count(),
                  " xferDuration=", telemetry.xferDuration.count(), " totalBytes=", telemetry.totalBytes,
                  " descCount=", telemetry.descCount, ">");
}

/// The conversion of durations imports datetime at its first use, and takes for granted that this succeeds.
void
importDatetime() {
    py::module_::import("datetime"); // raises what the import raised, which the capsule's error hides
    PyDateTime_IMPORT;
    if (PyDateTimeAPI == nullptr)
        throw py::error_already_set();
}

void
defineConfig(py::module_ &module) {
    importDatetime();
    py::class_<Config>(module, "nixlAgentConfig",
                       "How an agent is configured; read once, at its construction.", py::module_local())
        .def(py::init<>())
        .def(py::init<bool, bool, std::uint16_t, nixl_thread_sync_t, unsigned int, std::uint64_t,
                      std::uint64_t, bool, std::chrono::microseconds>(),
             "use_prog_thread"_a, "use_listen_thread"_a = Config::kDefaultUseListenThread,
             "port"_a = Config::kDefaultListenPort,
             py::arg_v("sync_mode", Config::kDefaultSyncMode, "nixl_thread_sync_t.NIXL_THREAD_SYNC_DEFAULT"),
             "num_workers"_a = 1, "pthr_delay_us"_a = Config::kDefaultPthrDelayUs,
             "lthr_delay_us"_a = Config::kDefaultLthrDelayUs,
             "capture_telemetry"_a = Config::kDefaultCaptureTelemetry,
             py::arg_v("etcd_watch_timeout", Config::kDefaultEtcdWatchTimeout, "..."))
        .def_readwrite("useProgThread", &Config::useProgThread)
        .def_readwrite("useListenThread", &Config::useListenThread)
        .def_readwrite("listenPort", &Config::listenPort)
        .def_readwrite("syncMode", &Config::syncMode)
        .def_readwrite("captureTelemetry", &Config::captureTelemetry)
        .def_readwrite("pthrDelay", &Config::pthrDelay, "Microseconds.")
        .def_readwrite("lthrDelay", &Config::lthrDelay, "Microseconds.")
        .def_readwrite("etcdWatchTimeout", &Config::etcdWatchTimeout)
        .def("__repr__", &describeConfig);
}

/// A duration of the telemetry as a number of microseconds.
template<std::chrono::microseconds Telemetry::*Field>
std::int64_t
microseconds(const Telemetry &telemetry) {
    return (telemetry.*Field).count();
}

void
defineTelemetry(py::module_ &module) {
    py::class_<Telemetry>(module, "nixlXferTelemetry", "What a finished transfer took.", py::module_local())
        .def(py::init<>())
        .def_property_readonly("startTime", &microseconds<&Telemetry::startTime>,
                               "When it was posted: steady clock, microseconds since boot.")
        .def_property_readonly("postDuration", &microseconds<&Telemetry::postDuration>,
                               "Microseconds in the posting call.")
        .def_property_readonly("xferDuration", &microseconds<&Telemetry::xferDuration>,
                               "Microseconds from the start of the post until it was known to be done.")
        .def_readonly("totalBytes", &Telemetry::totalBytes)
        .def_readonly("descCount", &Telemetry::descCount, "Descriptors after merging.")
        .def("__repr__", &describeTelemetry);
}

} // namespace

void
defineAgentTypes(py::module_ &module) {
    defineConfig(module);
    defineTelemetry(module);
}

} // namespace nixl::python
