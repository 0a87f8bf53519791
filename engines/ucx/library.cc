#include "engines/ucx/library.h"

#include <dlfcn.h>

#include <filesystem>
#include <optional>
#include <system_error>

#include "engines/ucx/candidates.h"
#include "engines/ucx/event_order.h"
#include "engines/ucx/foreign.h"
#include "engines/ucx/log_route.h"
#include "util/log.h"
#include "util/mutex.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NIXL_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define NIXL_SANITIZED 1
#endif
#endif
#ifndef NIXL_SANITIZED
#define NIXL_SANITIZED 0
#endif

namespace nixl::ucx {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "UCX_";

std::string
loaderError() {
    const char *why = ::dlerror();
    return why ? why : "no reason given";
}

/// The folder of a file, with links followed.
std::string
folderOf(const std::string &path) {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    return (error ? fs::path(path) : real).parent_path();
}

/// The file that an address of code belongs to.
template<typename Function>
std::string
fileOf(Function *function) {
    Dl_info info{};
    return ::dladdr(reinterpret_cast<void *>(function), &info) != 0 && info.dli_fname ? info.dli_fname : "";
}

/// Libraries that are closed again unless they are kept.
class OpenLibraries {
public:
    OpenLibraries() = default;

    ~OpenLibraries() {
        for (auto handle = handles_.rbegin(); handle != handles_.rend(); ++handle)
            ::dlclose(*handle);
    }

    OpenLibraries(const OpenLibraries &) = delete;
    OpenLibraries &operator=(const OpenLibraries &) = delete;

    void *
    open(const std::string &path) {
        int flags = RTLD_NOW | RTLD_LOCAL;
        // Sanitizers refuse to run with it.
        if (!NIXL_SANITIZED && ucxIsGlobal())
            flags |= RTLD_DEEPBIND;
        void *handle = ::dlopen(path.c_str(), flags);
        if (handle)
            handles_.push_back(handle);
        return handle;
    }

    /// Until the process ends: threads and exit handlers of UCX run in them.
    void
    keep() {
        handles_.clear();
    }

private:
    std::vector<void *> handles_;
};

std::string
nameAll(const std::vector<std::string> &files) {
    std::string out;
    for (const std::string &file : files)
        out += concat(out.empty() ? "'" : ", '", file, '\'');
    return out;
}

} // namespace

/// Finds and opens the UCX of the process.
class LibraryLoader {
public:
    explicit LibraryLoader(const Options &options)
        : options_(options), environment_(environmentOf(kPrefix)) {}

    Result<std::shared_ptr<const Library>>
    load() {
        const ForeignUcx foreign = findForeignUcx();
        resident_ = !foreign.sameName.empty();
        Result<Choice> choice = resident_ ? chooseResident(foreign.sameName) : chooseBest();
        if (!choice.ok())
            return choice.status();
        Result<std::shared_ptr<Library>> opened = openFirst(choice.value());
        if (!opened.ok())
            return opened.status();
        const std::shared_ptr<Library> library = std::move(opened).value();
        library->reason_ = choice.value().reason;
        std::vector<std::string> &notes = library->notes_;
        if (!choice.value().warning.empty())
            notes.push_back(choice.value().warning);
        if (!foreign.otherName.empty())
            notes.push_back(
                concat("another package has loaded a UCX of its own into this process, which runs "
                       "beside this one: ",
                       nameAll(foreign.otherName)));
        noteMixture(*library);
        notes.insert(notes.end(), choice.value().notes.begin(), choice.value().notes.end());
        settle(*library);
        report(*library, choice.value().warning);
        return std::shared_ptr<const Library>(library);
    }

private:
    Result<Choice>
    chooseBest() {
        Result<std::vector<Candidate>> candidates = listCandidates(currentPlaces(options_));
        if (!candidates.ok())
            return candidates.status();
        std::vector<Probe> probes;
        for (const Candidate &candidate : candidates.value())
            probes.push_back(probeCandidate(candidate));
        return choose(probes, usableRdma(readHostDevices()), !options_.ucxDir.empty());
    }

    /// The loader knows libraries by name: with one of UCX's names there, ours would get parts of it.
    Result<Choice>
    chooseResident(const std::vector<std::string> &files) const {
        std::string file = files.front();
        for (const std::string &other : files)
            if (fs::path(other).filename().string().compare(0, 6, "libucp") == 0)
                file = other;
        const std::string folder = folderOf(file);
        const Probe probe = probeCandidate({folder, "already loaded in this process"});
        if (!probe.refusal.empty())
            return Status::error(
                NIXL_ERR_BACKEND, "this process has already loaded '", file, "', and ", probe.refusal,
                "; a process can have one UCX of that name only: create the first UCX backend "
                "before what loads the other one, or keep that from being found");
        Choice out;
        out.order.push_back(probe);
        out.reason = concat("already loaded in this process by another package ('", file, "')");
        if (!options_.ucxDir.empty()) {
            Places places;
            places.chosen = options_.ucxDir;
            const Result<std::vector<Candidate>> wanted = listCandidates(places);
            if (!wanted.ok() || wanted.value().front().folder != folder)
                out.warning = concat("NIXL_UCX_DIR ('", options_.ucxDir,
                                     "') has no effect: this process has "
                                     "already loaded '",
                                     file, "', and can have one UCX of that name only");
        }
        return out;
    }

    Result<std::shared_ptr<Library>>
    openFirst(Choice &choice) const {
        std::string refused;
        for (const Probe &probe : choice.order) {
            Result<std::shared_ptr<Library>> library = open(probe);
            if (library.ok()) {
                if (&probe != &choice.order.front())
                    choice.reason = concat(probe.candidate.origin, "; better ones could not be opened");
                return library;
            }
            choice.notes.push_back(concat("passed over: ", library.status().message()));
            refused += concat(refused.empty() ? "" : "; ", library.status().message());
            // What stays loaded of one candidate would become part of the next.
            if (!resident_ && !findForeignUcx().sameName.empty())
                break;
        }
        return Status::error(NIXL_ERR_BACKEND, "no UCX can be used: ", refused);
    }

    static Result<std::shared_ptr<Library>>
    open(const Probe &probe) {
        const std::string path = concat(probe.candidate.folder, '/', kUcpFile);
        const auto refused = [&path](std::string_view why) {
            return Status::error(NIXL_ERR_BACKEND, "'", path, "' cannot be opened: ", why);
        };
        OpenLibraries open;
        // By path, so that libucp gets the parts that lie beside it, whatever paths it was built with.
        if (!open.open(concat(probe.candidate.folder, '/', kUcsFile)))
            return refused(loaderError());
        void *libuct = open.open(concat(probe.candidate.folder, '/', kUctFile));
        if (!libuct)
            return refused(loaderError());
        void *handle = open.open(path);
        if (!handle)
            return refused(loaderError());
        const std::shared_ptr<Library> library(new Library());
#define NIXL_UCX_BIND(prefix, name)                                                                          \
    library->api_.name = reinterpret_cast<decltype(library->api_.name)>(::dlsym(handle, #prefix "_" #name)); \
    if (!library->api_.name)                                                                                 \
        return refused("it lacks " #prefix "_" #name);
        NIXL_UCX_FUNCTIONS(NIXL_UCX_BIND)
#undef NIXL_UCX_BIND
        unsigned major = 0;
        unsigned minor = 0;
        unsigned release = 0;
        library->api_.get_version(&major, &minor, &release);
        library->version_ = concat(major, '.', minor, '.', release);
        const std::string old = judgeVersion(library->version_);
        if (!old.empty())
            return refused(old);
        if (const Status ordered = writeBeforeRead(libuct); !ordered.ok())
            NIXL_LOG(kWarn,
                     "UCX: if a peer closes a connection that this side closes, too, this process may end: '",
                     path, "' cannot be mended: ", ordered.message());
        library->path_ = path;
        library->transports_ = probe.transports;
        open.keep();
        return library;
    }

    static void
    noteMixture(Library &library) {
        const std::string other = folderOf(fileOf(library.api_.status_string));
        if (other != folderOf(library.path_))
            library.notes_.push_back(
                concat("'", library.path_, "' runs with libucs of '", other, "', which was loaded before"));
    }

    /// A UCX that others have loaded as well keeps its log and its signal handlers: they are theirs.
    void
    settle(const Library &library) const {
        routeLog(library.api(), resident_ || ucxLogsItself(environment_));
        if (!resident_ && environment_.count("UCX_ERROR_SIGNALS") == 0 &&
            environment_.count("UCX_HANDLE_ERRORS") == 0)
            library.api().debug_disable_signals();
    }

    static void
    report(const Library &library, const std::string &warning) {
        NIXL_LOG(kInfo, "UCX ", library.version(), ": '", library.path(), "', ", library.reason());
        for (const std::string &note : library.notes())
            if (note != warning)
                NIXL_LOG(kInfo, "UCX ", library.version(), ": ", note);
        if (!warning.empty())
            NIXL_LOG(kWarn, warning);
    }

    const Options &options_;
    const Environment environment_;
    bool resident_ = false;
};

Result<std::shared_ptr<const Library>>
Library::get(const Options &options) {
    static Mutex mutex;
    static auto *kept = new std::shared_ptr<const Library>;
    LockGuard lock(mutex);
    if (*kept)
        return *kept;
    Result<std::shared_ptr<const Library>> loaded = LibraryLoader(options).load();
    if (loaded.ok())
        *kept = loaded.value();
    return loaded;
}

} // namespace nixl::ucx
