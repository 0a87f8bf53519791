#include "engines/ucx/candidates.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <set>
#include <system_error>

#include "engines/ucx/api.h"
#include "engines/ucx/elf_file.h"
#include "nixl_ext.h"
#include "util/mutex.h"

#ifndef NIXL_UCX_CONFIGURED_DIR
#define NIXL_UCX_CONFIGURED_DIR ""
#endif

namespace nixl::ucx {

namespace {

namespace fs = std::filesystem;

#define NIXL_UCX_NAME(prefix, name) std::string_view(#prefix "_" #name),
constexpr std::string_view kFunctions[] = {NIXL_UCX_FUNCTIONS(NIXL_UCX_NAME)};
#undef NIXL_UCX_NAME

constexpr std::size_t kMostFolders = 256; // of a search path
constexpr std::string_view kModulePrefix = "libuct_";

constexpr const char *kSystemFolders[] = {
#if defined(__x86_64__)
    "/usr/lib/x86_64-linux-gnu",
#elif defined(__aarch64__)
    "/usr/lib/aarch64-linux-gnu",
#endif
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/opt/ucx/lib",
    "/opt/hpcx/ucx/lib",
    "/usr/local/ucx/lib",
};

constexpr const char *kInstall =
    "install the wheel libucx-cu13 or libucx-cu12, or name a UCX with NIXL_UCX_DIR";

struct Wheels {
    Mutex mutex;
    std::vector<std::string> folders NIXL_GUARDED_BY(mutex);
};

Wheels &
wheels() {
    static auto *kept = new Wheels;
    return *kept;
}

std::string
ownFolder() {
    Dl_info info{};
    if (::dladdr(reinterpret_cast<void *>(&ownFolder), &info) == 0 || !info.dli_fname)
        return {};
    std::error_code error;
    return fs::canonical(info.dli_fname, error).parent_path();
}

bool
hasUcx(const fs::path &folder) {
    std::error_code error;
    return fs::is_regular_file(folder / kUcpFile, error);
}

class Collector {
public:
    void
    add(const fs::path &folder, std::string origin) {
        // A relative folder would depend on where the process stands.
        std::error_code error;
        if (!folder.is_absolute() || !hasUcx(folder))
            return;
        const std::string file = fs::canonical(folder / kUcpFile, error);
        if (!error && seen_.insert(file).second)
            candidates_.push_back({fs::canonical(folder, error).string(), std::move(origin)});
    }

    std::vector<Candidate>
    take() && {
        return std::move(candidates_);
    }

private:
    std::set<std::string> seen_;
    std::vector<Candidate> candidates_;
};

Result<std::vector<Candidate>>
chosenCandidate(const std::string &chosen) {
    Collector out;
    std::error_code error;
    const fs::path folder = fs::absolute(chosen, error);
    for (const char *below : {"", "lib", "lib64"})
        out.add(folder / below, "named by NIXL_UCX_DIR");
    std::vector<Candidate> found = std::move(out).take();
    if (found.empty())
        return Status::error(NIXL_ERR_BACKEND, "NIXL_UCX_DIR is '", chosen, "', but there is no ", kUcpFile,
                             " in it or in its lib");
    found.resize(1);
    return found;
}

/// Names of the transports that a UCX has as modules beside it.
std::vector<std::string>
moduleNames(const fs::path &folder) {
    std::set<std::string> names;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        const std::string file = entry->path().filename();
        const std::size_t dot = file.find(".so");
        if (file.compare(0, kModulePrefix.size(), kModulePrefix) == 0 && dot != std::string::npos)
            names.insert(file.substr(kModulePrefix.size(), dot - kModulePrefix.size()));
    }
    return {names.begin(), names.end()};
}

/// Why a library of a candidate cannot be used, empty if it can. Those functions are asked for whose names
/// begin with `prefix`.
std::string
judgeFile(const std::string &path, std::string_view prefix, std::string *version) {
    const Result<std::string> bytes = readLibraryFile(path);
    if (!bytes.ok())
        return bytes.status().message();
    const Result<ElfFile> file = ElfFile::parse(bytes.value());
    if (!file.ok())
        return concat("'", path, "' ", file.status().message());
    std::vector<std::string_view> wanted;
    std::copy_if(std::begin(kFunctions), std::end(kFunctions), std::back_inserter(wanted),
                 [prefix](std::string_view name) { return name.substr(0, prefix.size()) == prefix; });
    if (version)
        *version = file.value().versionText().value_or("");
    const std::string_view missing = file.value().firstMissing(wanted);
    return missing.empty() ? "" : concat("it lacks ", missing, ", so it is too old");
}

std::string
describe(const Probe &probe) {
    return concat("UCX ", probe.version.empty() ? "of unknown version" : probe.version, " in '",
                  probe.candidate.folder, "'");
}

std::string
joined(const std::vector<std::string> &parts, std::string_view separator) {
    std::string out;
    for (const std::string &part : parts)
        out += (out.empty() ? "" : std::string(separator)) + part;
    return out;
}

} // namespace

void
rememberWheel(std::string folder) {
    LockGuard lock(wheels().mutex);
    std::vector<std::string> &folders = wheels().folders;
    if (std::find(folders.begin(), folders.end(), folder) == folders.end())
        folders.push_back(std::move(folder));
}

Places
currentPlaces(const Options &options) {
    Places out;
    out.chosen = options.ucxDir;
    out.beside = ownFolder();
    {
        LockGuard lock(wheels().mutex);
        out.wheels = wheels().folders;
    }
    out.configured = NIXL_UCX_CONFIGURED_DIR;
    const Environment environment = environmentOf("LD_LIBRARY_PATH");
    const auto path = environment.find("LD_LIBRARY_PATH");
    if (path != environment.end())
        out.searchPath = path->second;
    out.system.assign(std::begin(kSystemFolders), std::end(kSystemFolders));
    return out;
}

Result<std::vector<Candidate>>
listCandidates(const Places &places) {
    if (!places.chosen.empty())
        return chosenCandidate(places.chosen);
    Collector out;
    const fs::path beside = places.beside;
    out.add(beside / "ucx", "beside the library");
    // The library lies in <packages>/nixl/lib, or beside the package.
    for (const char *way : {"../../libucx/lib", "../libucx/lib"})
        out.add(beside / way, "the wheel libucx beside the package");
    for (const std::string &wheel : places.wheels)
        out.add(fs::path(wheel) / "lib", "the wheel libucx of this Python");
    out.add(places.configured, "the UCX that the library was built with");
    std::string_view path = places.searchPath;
    for (std::size_t n = 0; !path.empty() && n < kMostFolders; ++n) {
        const std::size_t colon = std::min(path.find(':'), path.size());
        out.add(std::string(path.substr(0, colon)), "in LD_LIBRARY_PATH");
        path.remove_prefix(std::min(colon + 1, path.size()));
    }
    for (const std::string &folder : places.system)
        out.add(folder, "installed on the system");
    return std::move(out).take();
}

bool
Probe::drivesRdma() const {
    return std::any_of(transports.begin(), transports.end(), [](const std::string &name) {
        return name == "ib" || name.compare(0, 3, "ib_") == 0;
    });
}

std::string
judgeVersion(std::string_view version) {
    std::array<unsigned, 2> parts{};
    const char *at = version.data();
    const char *const end = at + version.size();
    for (unsigned &part : parts) {
        const auto [stop, error] = std::from_chars(at, end, part);
        if (error != std::errc() || stop == end || *stop != '.')
            return concat("its version '", version, "' is not understood");
        at = stop + 1;
    }
    if (parts[0] == kMinimumMajor && parts[1] >= kMinimumMinor)
        return {};
    return concat("version ", version, parts[0] > kMinimumMajor ? " is not known" : " is too old", "; ",
                  kMinimumMajor, '.', kMinimumMinor, " or newer is needed to talk to NIXL");
}

Probe
probeCandidate(const Candidate &candidate) {
    Probe out;
    out.candidate = candidate;
    out.transports = moduleNames(fs::path(candidate.folder) / "ucx");
    const std::string ucp = judgeFile(candidate.folder + "/" + kUcpFile, "ucp_", &out.version);
    // The version is the better reason where both are known.
    if (!out.version.empty())
        out.refusal = judgeVersion(out.version);
    if (out.refusal.empty())
        out.refusal = ucp;
    if (out.refusal.empty())
        out.refusal = judgeFile(candidate.folder + "/" + kUcsFile, "ucs_", nullptr);
    return out;
}

Result<Choice>
choose(const std::vector<Probe> &probes, const std::vector<std::string> &rdma, bool chosen) {
    Choice out;
    std::vector<std::string> refused;
    for (const Probe &probe : probes) {
        if (probe.refusal.empty())
            out.order.push_back(probe);
        else
            refused.push_back(concat(describe(probe), " (", probe.candidate.origin, "): ", probe.refusal));
    }
    if (out.order.empty())
        return Status::error(NIXL_ERR_BACKEND, "no UCX can be used: ",
                             refused.empty() ? "none was found" : joined(refused, "; "), "; ", kInstall);
    for (const std::string &text : refused)
        out.notes.push_back(concat("passed over: ", text));
    out.reason = out.order.front().candidate.origin;
    const auto able = std::find_if(out.order.begin(), out.order.end(),
                                   [](const Probe &probe) { return probe.drivesRdma(); });
    if (rdma.empty() || able == out.order.begin())
        return out;
    const std::string devices = joined(rdma, ", ");
    if (able != out.order.end()) {
        out.reason = concat(able->candidate.origin,
                            ", preferred because it drives the RDMA devices of this host (", devices, ")");
        std::rotate(out.order.begin(), able, able + 1);
        return out;
    }
    const std::string lack =
        concat("this host has RDMA devices (", devices, "), but ", describe(out.order.front()),
               " has no transport for them, so data goes over TCP");
    if (chosen)
        out.notes.push_back(lack);
    else
        out.warning = concat(lack, "; install a UCX with RDMA, ", kMinimumMajor, '.', kMinimumMinor,
                             " or newer (the vendor's or the distribution's), and name it with NIXL_UCX_DIR");
    return out;
}

std::vector<std::string>
usableRdma(const HostDevices &host, const std::string &dev) {
    std::vector<std::string> out;
    std::error_code error;
    // Containers often see the devices of their host in sysfs, but may not open them.
    bool open = false;
    for (fs::directory_iterator entry(fs::path(dev) / "infiniband", error), end; !error && entry != end;
         entry.increment(error))
        open = open || entry->path().filename().string().compare(0, 6, "uverbs") == 0;
    if (open)
        for (const auto &[name, ports] : host.rdma)
            out.push_back(name);
    return out;
}

} // namespace nixl::ucx

void
nixl_add_libucx(const std::string &folder) {
    nixl::ucx::rememberWheel(folder);
}
