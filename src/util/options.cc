#include "util/options.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>

#include "util/mutex.h"
#include "util/scoped_fd.h"
#include "util/setting_names.h"
#include "util/toml_file.h"

namespace nixl {

namespace {

constexpr std::string_view kPrefix = "NIXL_";
constexpr const char *kSystemFile = "/etc/nixl.cfg";
constexpr std::size_t kLongestFile = 1 << 20;
constexpr std::size_t kLongestShown = 200;

const OptionRow *
findOption(std::string_view name) {
    for (const OptionRow &row : optionTable())
        if (row.name == name)
            return &row;
    return nullptr;
}

// ---- The file ----

/// Reads a file; `absent` and `denied` tell the errors that a default file may have.
Result<std::string>
readFile(const std::string &path, bool &absent, bool &denied) {
    const auto failed = [&](int error) {
        absent = error == ENOENT || error == ENOTDIR;
        denied = error == EACCES || error == EPERM;
        return Status::error(NIXL_ERR_INVALID_PARAM, "'", path, "' cannot be read: ", std::strerror(error));
    };
    // Not blocking: the path may be a FIFO.
    const ScopedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!fd.valid())
        return failed(errno);
    struct stat info{};
    if (::fstat(fd.get(), &info) != 0)
        return failed(errno);
    // A character device, for /dev/null.
    if (!S_ISREG(info.st_mode) && !S_ISCHR(info.st_mode))
        return Status::error(NIXL_ERR_INVALID_PARAM, "'", path, "' is not a regular file");
    std::string text(kLongestFile + 1, '\0');
    std::size_t size = 0;
    while (size < text.size()) {
        const ssize_t n = ::read(fd.get(), text.data() + size, text.size() - size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return failed(errno);
        if (n == 0)
            break;
        size += static_cast<std::size_t>(n);
    }
    if (size > kLongestFile)
        return Status::error(NIXL_ERR_INVALID_PARAM, "'", path, "' is longer than ", kLongestFile, " bytes");
    text.resize(size);
    return text;
}

/// A file that nobody asked for: absence is normal.
Result<std::optional<ConfigText>>
readDefaultFile(const std::string &path, std::vector<OptionNote> &notes) {
    bool absent = false;
    bool denied = false;
    Result<std::string> text = readFile(path, absent, denied);
    if (text.ok() && !text.value().empty() && !readsToml()) {
        notes.push_back({LogLevel::kWarn, path,
                         concat("'", path, "' is ignored: this library was built without toml++")});
        return std::optional<ConfigText>();
    }
    if (text.ok())
        return std::optional<ConfigText>({path, std::move(text).value()});
    if (denied)
        notes.push_back(
            {LogLevel::kWarn, path, concat(text.status().message(), "; its settings are ignored")});
    if (absent || denied)
        return std::optional<ConfigText>();
    return text.status();
}

// ---- Values ----

/// Where a value stands, for messages: "in the environment", "in '/etc/nixl.cfg', line 3".
std::string
place(const ConfigText &file, const TomlEntry &entry) {
    return concat("in '", file.path, "', line ", entry.line);
}

constexpr std::string_view kEnvironmentPlace = "in the environment";

/// Sets an option from a text found at `where`.
Status
assign(Options &options, const OptionRow &row, std::string_view text, std::string_view where) {
    const Status set = setOption(options, row, text);
    if (set.ok())
        return set;
    const std::string shown =
        row.secret ? "a value that is not shown" : concat("'", text.substr(0, kLongestShown), "'");
    std::string message = concat(row.name, " is ", shown, ' ', where, "; ", set.message());
    // Nothing that is only about messages may keep a program from running.
    if (std::holds_alternative<LogLevel Options::*>(row.field)) {
        options.notes.push_back({LogLevel::kWarn, std::string(row.name), std::move(message)});
        return {};
    }
    return Status(set.code(), std::move(message));
}

Status
assignFromFile(Options &options, const OptionRow &row, const ConfigText &file, const TomlEntry &entry) {
    const std::string where = place(file, entry);
    if (!entry.unusable.empty())
        return Status::error(NIXL_ERR_INVALID_PARAM, row.name, " is ", entry.unusable, ' ', where,
                             "; accepted is ", acceptedValues(row));
    if (row.environmentOnly) {
        options.notes.push_back(
            {LogLevel::kWarn, entry.name,
             concat(entry.name, ' ', where, " has no effect: it is read from the environment")});
        return {};
    }
    options.sources[entry.name] = OptionSource::kFile;
    return assign(options, row, entry.text, where);
}

void
noteOtherName(Options &options, const std::string &name, std::string_view where) {
    switch (classifySetting(name)) {
    case SettingName::kPython:
        return;
    case SettingName::kElsewhere:
        options.notes.push_back({LogLevel::kInfo, name,
                                 concat(name, ' ', where, " is known to NIXL but not read by this build")});
        return;
    case SettingName::kUnknown:
        break;
    }
    const std::string_view similar = similarOption(name);
    options.notes.push_back(
        {LogLevel::kWarn, name,
         concat(name.substr(0, kLongestShown), ' ', where, " is no option and has no effect",
                similar.empty() ? "" : "; did you mean ", similar, similar.empty() ? "" : "?")});
}

Status
applyFile(Options &options, const Environment &environment, const ConfigText &file) {
    Result<std::vector<TomlEntry>> entries = parseToml(file);
    if (!entries.ok())
        return entries.status();
    options.filePath = file.path;
    for (const TomlEntry &entry : entries.value()) {
        const OptionRow *row = findOption(entry.name);
        if (!row)
            noteOtherName(options, entry.name, place(file, entry));
        else if (environment.find(entry.name) == environment.end())
            NIXL_RETURN_IF_ERROR(assignFromFile(options, *row, file, entry));
        else
            options.notes.push_back(
                {LogLevel::kWarn, entry.name,
                 concat(entry.name, ' ', place(file, entry), " has no effect: the environment sets it too")});
    }
    return {};
}

Status
applyEnvironment(Options &options, const Environment &environment) {
    for (auto entry = environment.lower_bound(kPrefix); entry != environment.end(); ++entry) {
        const auto &[name, text] = *entry;
        if (name.compare(0, kPrefix.size(), kPrefix) != 0)
            break;
        const OptionRow *row = findOption(name);
        if (!row) {
            noteOtherName(options, name, kEnvironmentPlace);
            continue;
        }
        options.sources[name] = OptionSource::kEnvironment;
        NIXL_RETURN_IF_ERROR(assign(options, *row, text, kEnvironmentPlace));
    }
    return {};
}

/// Logs what has not been logged before in this process.
void
logNotes(const std::vector<OptionNote> &notes) {
    static Mutex mutex;
    static auto *said = new std::set<std::string>;
    LockGuard lock(mutex);
    for (const OptionNote &note : notes)
        if (note.level >= logLevel() && said->insert(note.text).second)
            writeLog(note.level, __FILE__, __LINE__, note.text);
}

} // namespace

LogLevel
environmentLogLevel() {
    const char *text = std::getenv("NIXL_LOG_LEVEL");
    return parseLogLevel(text ? text : "").value_or(Options().logLevel);
}

Environment
environmentOf(std::string_view prefix) {
    Environment out;
    for (char **variable = environ; variable && *variable; ++variable) {
        const std::string_view text = *variable;
        const std::size_t equals = text.find('=');
        if (equals == std::string_view::npos)
            continue;
        const std::string_view name = text.substr(0, equals);
        // Of a name that stands there twice, the first counts, as for getenv.
        if (name.substr(0, prefix.size()) == prefix)
            out.emplace(name, text.substr(equals + 1));
    }
    return out;
}

Environment
processEnvironment() {
    Environment out = environmentOf(kPrefix);
    if (const char *home = std::getenv("HOME"))
        out.emplace("HOME", home);
    return out;
}

Result<std::optional<ConfigText>>
findConfigFile(const Environment &environment, const std::string &systemFile,
               std::vector<OptionNote> &notes) {
    const auto named = environment.find("NIXL_CONFIG_FILE");
    if (named != environment.end() && !named->second.empty()) {
        bool absent = false;
        bool denied = false;
        Result<std::string> text = readFile(named->second, absent, denied);
        if (!text.ok())
            return text.status().withContext("NIXL_CONFIG_FILE");
        return std::optional<ConfigText>({named->second, std::move(text).value()});
    }
    const auto home = environment.find("HOME");
    if (home != environment.end() && !home->second.empty()) {
        Result<std::optional<ConfigText>> file = readDefaultFile(home->second + "/.nixl.cfg", notes);
        if (!file.ok() || file.value())
            return file;
    }
    return readDefaultFile(systemFile, notes);
}

Result<Options>
resolveOptions(const Environment &environment, const std::optional<ConfigText> &file) {
    Options options;
    if (file)
        NIXL_RETURN_IF_ERROR(applyFile(options, environment, *file));
    NIXL_RETURN_IF_ERROR(applyEnvironment(options, environment));
    return options;
}

Result<std::shared_ptr<const Options>>
loadOptions() {
    const Environment environment = processEnvironment();
    std::vector<OptionNote> notes;
    Result<std::optional<ConfigText>> file = findConfigFile(environment, kSystemFile, notes);
    if (!file.ok())
        return file.status();
    Result<Options> options = resolveOptions(environment, file.value());
    if (!options.ok())
        return options.status();
    Options &out = options.value();
    out.notes.insert(out.notes.begin(), notes.begin(), notes.end());
    adoptLogLevel(out.logLevel);
    logNotes(out.notes);
    return std::shared_ptr<const Options>(std::make_shared<Options>(std::move(out)));
}

} // namespace nixl
