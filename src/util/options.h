// The settings of the library: one table, from which parsing, help, documentation and reports are made.
//
// A value comes from the environment, else from a TOML file, else it is the default; docs/configuration.md,
// which is printed from the table, has the details.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "util/log.h"
#include "util/status.h"

namespace nixl {

/// Where a value comes from.
enum class OptionSource { kDefault, kFile, kEnvironment };

/// Something about the settings that a person should know: a setting without effect, a name that does not
/// exist.
struct OptionNote {
    LogLevel level;
    std::string name; ///< of the setting
    std::string text;
};

/// Settings as they were when an agent was made. A default-constructed object holds the defaults.
struct Options {
    LogLevel logLevel = LogLevel::kWarn;
    std::string configFile;
    std::string pluginDir;

    bool local = true;         ///< the same-host engine may be used
    unsigned localThreads = 0; ///< threads that copy for it; 0: chosen from the free cores
    std::chrono::milliseconds localConnectTimeout{1000};
    std::chrono::milliseconds localQuiesceTimeout{5000}; ///< wait for accesses of peers that are under way
    std::string ucxDir;                                  ///< where the UCX to use lies
    bool ucxPackedBlocks = true; ///< blocks go packed to engines of ours, where UCX has messages only
    std::uint64_t notifMaxBytes = std::uint64_t{256} << 20;
    std::uint64_t notifQueueBytes = std::uint64_t{64} << 20; ///< that wait for the program before peers wait
    std::chrono::milliseconds notifTimeout{1000};            ///< of genNotif, for room at the peer
    std::uint64_t peerEvents = 1024;                         ///< that wait to be taken, at least 1
    std::chrono::milliseconds releaseTimeout{50};
    std::chrono::milliseconds transferTimeout{0}; ///< of transfers without one of their own; 0: none
    std::chrono::milliseconds cutOffTimeout{500}; ///< from a cancel to the end by force

    std::optional<bool> telemetryEnable;      ///< wins over what the program says
    std::uint64_t telemetryBufferSize = 4096; ///< events, at least 1
    std::chrono::milliseconds telemetryRunInterval{100};
    std::string telemetryExporter;
    std::string telemetryDir;
    std::string telemetryEnabledMetrics;

    std::string etcdEndpoints;
    std::string tcpStoreEndpoint;

    std::string filePath; ///< the TOML file that was read, empty if none
    /// Who decided, by name; the options that nobody set are not here.
    std::map<std::string, OptionSource, std::less<>> sources;
    std::vector<OptionNote> notes;

    /// Where the value of an option comes from.
    OptionSource
    source(std::string_view name) const {
        const auto found = sources.find(name);
        return found == sources.end() ? OptionSource::kDefault : found->second;
    }
};

/// The field that an option fills; its type says how the value is written.
using OptionField =
    std::variant<std::string Options::*, bool Options::*, std::optional<bool> Options::*, unsigned Options::*,
                 std::uint64_t Options::*, std::chrono::milliseconds Options::*, LogLevel Options::*>;

/// One option.
struct OptionRow {
    std::string_view name; ///< of the variable, and of the key in the file
    OptionField field;
    std::string_view help;           ///< one sentence
    std::string_view whenEmpty = {}; ///< what having no value means, for options that can have none
    std::uint64_t least = 0;         ///< bounds of numbers
    std::uint64_t most = 0;
    bool environmentOnly = false; ///< not read from the file
    bool secret = false;          ///< the value appears in no message
};

/// All options, in the order of the documentation. The defaults are those of Options.
std::span<const OptionRow> optionTable();

/// The value of an option as it would be written, empty if it has none; a secret as "(hidden)".
std::string optionValue(const Options &options, const OptionRow &row);

/// What an option accepts, as a noun phrase: "a number from 1 to 1024".
std::string acceptedValues(const OptionRow &row);

/// The words for yes and no that options accept, in any case of letters; nothing for other words.
std::optional<bool> parseYesNo(std::string_view text);

/// A number in decimal or, with 0x, in hexadecimal.
std::optional<std::uint64_t> parseNumber(std::string_view text);

/// Gives an option the value that `text` says, or its default if `text` is empty. The error says only what is
/// accepted; the caller knows where the text is from.
Status setOption(Options &options, const OptionRow &row, std::string_view text);

/// Reads the environment and the TOML file now, and logs each note once per process. Also gives the log its
/// level, unless setLogLevel was called. NIXL_ERR_INVALID_PARAM: a value that its option does not accept, or
/// a file that cannot be used; the message names setting, value, source and what is accepted.
Result<std::shared_ptr<const Options>> loadOptions();

/// The level that NIXL_LOG_LEVEL alone asks for: what holds before the first loadOptions.
LogLevel environmentLogLevel();

// ---- The steps of loadOptions ----

using Environment = std::map<std::string, std::string, std::less<>>;

/// The variables of the process that matter here: NIXL_* and HOME.
Environment processEnvironment();

/// The variables of the process whose names begin with `prefix`, for engines that answer to settings of
/// others.
Environment environmentOf(std::string_view prefix);

/// A TOML file's contents.
struct ConfigText {
    std::string path; ///< for messages
    std::string text;
};

/// Finds and reads the file: NIXL_CONFIG_FILE, which must exist, else $HOME/.nixl.cfg, else `systemFile`. A
/// default file that does not exist is passed over; so is one that may not be read, with a note.
Result<std::optional<ConfigText>>
findConfigFile(const Environment &environment, const std::string &systemFile, std::vector<OptionNote> &notes);

/// The settings that these variables and this file give. Touches nothing else, and logs nothing.
Result<Options> resolveOptions(const Environment &environment, const std::optional<ConfigText> &file);

} // namespace nixl
