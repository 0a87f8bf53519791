#define NIXL_TELEMETRY_PLUGIN_HOST

#include "telemetry/exporter_plugin.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "telemetry/telemetry_plugin.h"
#include "util/dynamic_library.h"
#include "util/mutex.h"

namespace nixl {

namespace {

constexpr std::string_view kPrefix = "libtelemetry_exporter_";
constexpr std::string_view kSuffix = ".so";
constexpr std::size_t kMaxNameLength = 128;

/// The descriptions of files in use, one for the process: init and fini of a file come in pairs.
class PluginTable {
public:
    static PluginTable &
    instance() {
        // Never destroyed: agents may live until after the end of main.
        static auto *table = new PluginTable;
        return *table;
    }

    Result<const nixlTelemetryPlugin *>
    acquire(const std::string &path) {
        const LockGuard guard(mutex_);
        Entry &entry = entries_[path];
        if (entry.uses == 0)
            NIXL_RETURN_IF_ERROR(start(path, entry));
        ++entry.uses;
        return entry.plugin;
    }

    void
    release(const std::string &path) {
        const LockGuard guard(mutex_);
        Entry &entry = entries_[path];
        if (--entry.uses > 0)
            return;
        entry.plugin = nullptr;
        if (const auto fini = entry.library->function<void (*)()>("nixl_telemetry_plugin_fini"))
            fini();
    }

private:
    struct Entry {
        std::shared_ptr<DynamicLibrary> library;
        const nixlTelemetryPlugin *plugin = nullptr;
        std::size_t uses = 0;
    };

    static Status
    start(const std::string &path, Entry &entry) {
        Result<std::shared_ptr<DynamicLibrary>> library = DynamicLibrary::open(path);
        if (!library.ok())
            return Status(NIXL_ERR_NOT_SUPPORTED, library.status().message());
        entry.library = std::move(library).value();
        const auto init = entry.library->function<nixlTelemetryPlugin *(*)()>("nixl_telemetry_plugin_init");
        if (!init)
            return Status::error(NIXL_ERR_NOT_SUPPORTED, "'", path,
                                 "' exports no nixl_telemetry_plugin_init");
        const auto *abi = static_cast<const int *>(entry.library->symbol("nixl_open_telemetry_abi"));
        if (!abi || *abi != NIXL_OPEN_TELEMETRY_ABI)
            return Status::error(
                NIXL_ERR_NOT_SUPPORTED, "'", path,
                "' was not built from the headers of this library; it works when it is rebuilt");
        return describe(path, init, entry);
    }

    static Status
    describe(const std::string &path, nixlTelemetryPlugin *(*init)(), Entry &entry) {
        const nixlTelemetryPlugin *plugin = nullptr;
        try {
            plugin = init();
        } catch (const std::exception &failure) {
            return Status::error(NIXL_ERR_NOT_SUPPORTED, "'", path, "' failed to start: ", failure.what());
        } catch (...) {
            return Status::error(NIXL_ERR_NOT_SUPPORTED, "'", path, "' failed to start");
        }
        if (!plugin)
            return Status::error(NIXL_ERR_NOT_SUPPORTED, "'", path, "' refused to start");
        if (plugin->api_version != NIXL_TELEMETRY_PLUGIN_API_VERSION)
            return Status::error(NIXL_ERR_NOT_SUPPORTED, "'", path, "' has version ",
                                 static_cast<unsigned>(plugin->api_version),
                                 " of the exporter interface, not ",
                                 static_cast<unsigned>(NIXL_TELEMETRY_PLUGIN_API_VERSION));
        if (!plugin->create_exporter)
            return Status::error(NIXL_ERR_NOT_SUPPORTED, "'", path, "' cannot create exporters");
        entry.plugin = plugin;
        return {};
    }

    Mutex mutex_;
    std::map<std::string, Entry> entries_ NIXL_GUARDED_BY(mutex_);
};

/// One use of a file.
class PluginUse {
public:
    explicit PluginUse(std::string path) : path_(std::move(path)) {}

    PluginUse(const PluginUse &) = delete;
    PluginUse &operator=(const PluginUse &) = delete;

    ~PluginUse() {
        PluginTable::instance().release(path_);
    }

private:
    std::string path_;
};

Result<std::shared_ptr<nixlTelemetryExporter>>
makeFrom(const std::string &path, const std::string &name, const nixlTelemetryExporterInitParams &params) {
    Result<const nixlTelemetryPlugin *> plugin = PluginTable::instance().acquire(path);
    if (!plugin.ok())
        return plugin.status();
    const auto use = std::make_shared<PluginUse>(path);
    std::unique_ptr<nixlTelemetryExporter> exporter;
    try {
        exporter = plugin.value()->create_exporter(params);
    } catch (const nixlTelemetryBindFailed &) {
        throw;
    } catch (const std::exception &failure) {
        return Status::error(NIXL_ERR_BACKEND, "telemetry exporter '", name, "' of '", path,
                             "' failed to start: ", failure.what());
    } catch (...) {
        return Status::error(NIXL_ERR_BACKEND, "telemetry exporter '", name, "' of '", path,
                             "' failed to start");
    }
    if (!exporter)
        return Status::error(NIXL_ERR_BACKEND, "telemetry exporter '", name, "' of '", path,
                             "' failed to start and gave no reason");
    // The deleter holds the use, so that fini comes after the exporter's destructor.
    return std::shared_ptr<nixlTelemetryExporter>(exporter.release(),
                                                  [use](nixlTelemetryExporter *made) { delete made; });
}

/// A name is part of a path, so it must not lead elsewhere.
bool
isPlainName(std::string_view name) {
    return !name.empty() && name.size() <= kMaxNameLength &&
           std::all_of(name.begin(), name.end(), [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-' || c == '.';
           });
}

std::string
whatExists(const std::vector<std::string> &directories) {
    std::set<std::string> names;
    std::string searched;
    for (const std::string &directory : directories) {
        searched += concat(searched.empty() ? "" : ", ", "'", directory, "'");
        std::error_code error;
        for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
             entry.increment(error)) {
            const std::string file = entry->path().filename().string();
            if (file.size() > kPrefix.size() + kSuffix.size() && file.starts_with(kPrefix) &&
                file.ends_with(kSuffix))
                names.insert(file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size()));
        }
    }
    std::string list = "BUFFER, NOP";
    for (const std::string &name : names)
        list += ", " + name;
    return concat(list, searched.empty() ? "; there is no plugin directory" : "; searched: ", searched);
}

} // namespace

Result<std::shared_ptr<nixlTelemetryExporter>>
makePluginExporter(const std::string &name, const nixlTelemetryExporterInitParams &params,
                   const std::vector<std::string> &directories) {
    Status unusable;
    for (const std::string &directory : directories) {
        if (!isPlainName(name))
            break;
        const std::string path = concat(directory, "/", kPrefix, name, kSuffix);
        std::error_code error;
        if (!std::filesystem::exists(path, error))
            continue;
        Result<std::shared_ptr<nixlTelemetryExporter>> exporter = makeFrom(path, name, params);
        if (exporter.ok() || exporter.status().code() == NIXL_ERR_BACKEND)
            return exporter;
        if (unusable.ok())
            unusable = exporter.status().withContext(concat("telemetry exporter '", name, "'"));
    }
    if (!unusable.ok())
        return unusable;
    return Status::error(NIXL_ERR_NOT_FOUND, "telemetry exporter '", name,
                         "' does not exist; there are: ", whatExists(directories));
}

} // namespace nixl
