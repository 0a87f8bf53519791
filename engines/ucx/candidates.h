// The UCX libraries that this machine offers, and which of them is the best: judged by their files, for a
// second UCX that was loaded once leaves traces even when it is closed again.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engines/ucx/devices.h"
#include "util/options.h"
#include "util/status.h"

namespace nixl::ucx {

/// Older ones cannot read the keys that NIXL's UCX hands out: docs/ucx.md has what was tried.
constexpr unsigned kMinimumMajor = 1;
constexpr unsigned kMinimumMinor = 19;

/// The library, and the name under which the loader knows it.
constexpr const char *kUcpFile = "libucp.so.0";
constexpr const char *kUcsFile = "libucs.so.0";
constexpr const char *kUctFile = "libuct.so.0";

/// Where to look.
struct Places {
    std::string chosen;              ///< NIXL_UCX_DIR; nothing else counts if it is set
    std::string beside;              ///< the folder of libnixl.so
    std::vector<std::string> wheels; ///< folders of Python packages libucx
    std::string configured;          ///< of the build, empty in a wheel
    std::string searchPath;          ///< LD_LIBRARY_PATH
    std::vector<std::string> system; ///< folders in which distributions and vendors install
};

/// Of this process.
Places currentPlaces(const Options &options);

/// Remembers the folder of a Python package libucx for currentPlaces. Thread-safe.
void rememberWheel(std::string folder);

struct Candidate {
    std::string folder; ///< absolute, with libucp.so.0 in it
    std::string origin; ///< "beside the library"
};

/// In order of preference; a folder comes once, whatever links lead to it. NIXL_ERR_BACKEND: the chosen
/// folder has no UCX.
Result<std::vector<Candidate>> listCandidates(const Places &places);

/// What the files of a candidate say.
struct Probe {
    Candidate candidate;
    std::string version;                 ///< empty if the file does not say
    std::vector<std::string> transports; ///< that it has as modules: "cma", "cuda", "ib"
    std::string refusal;                 ///< why it cannot be used, empty if it can

    bool drivesRdma() const;
};

Probe probeCandidate(const Candidate &candidate);

/// Why a version is not new enough, empty if it is. The text must be of the form "1.22.0".
std::string judgeVersion(std::string_view version);

struct Choice {
    std::vector<Probe> order; ///< those that can be used, best first
    std::string reason;       ///< why the first one
    std::string warning;      ///< a fault of this machine that a person should repair, empty if there is none
    std::vector<std::string>
        notes; ///< what else is worth knowing, among it each candidate that was passed over
};

/// `rdma`: the RDMA devices that this process can use. NIXL_ERR_BACKEND: no candidate can be used; the
/// message says why, and what to install.
Result<Choice> choose(const std::vector<Probe> &probes, const std::vector<std::string> &rdma, bool chosen);

/// RDMA devices that the process has access to, not only sight of.
std::vector<std::string> usableRdma(const HostDevices &host, const std::string &dev = "/dev");

} // namespace nixl::ucx
