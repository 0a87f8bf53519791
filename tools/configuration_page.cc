// Prints docs/configuration.md from the table of options.
//
//   configuration_page               prints the page
//   configuration_page --check FILE  fails if FILE is not the page, and says how to write it
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include "util/options.h"
#include "util/toml_file.h"

namespace {

using nixl::concat;

constexpr std::string_view kExample = R"(# $HOME/.nixl.cfg
NIXL_LOG_LEVEL = "INFO"
NIXL_LOCAL_THREADS = 4
NIXL_RELEASE_TIMEOUT_MS = 200
NIXL_TELEMETRY_ENABLE = true
NIXL_TELEMETRY_DIR = "/var/tmp/nixl"
)";

constexpr std::string_view kBefore = R"(# Configuration

<!-- Printed by tools/configuration_page.cc from the table in src/util/option_table.cc; change those. -->

Everything works without any setting. What can be set is in the table below; each option has one name, which is
the name of an environment variable and of a key in a configuration file.

## Where a value comes from

1. The environment variable, if it is set.
2. The configuration file, if there is one and it has the key.
3. The default.

Both are read whenever an agent is created, so a program can set variables after it has imported the library; an
agent keeps the settings it was created with. `NIXL_LOG_LEVEL` belongs to the process: each new agent sets it anew.

A variable that is set but empty (`NIXL_LOCAL=`) stands for the default, and hides the file's value like any other.

## The file

The first of these that exists is read, and only that one:

1. the file that `NIXL_CONFIG_FILE` names; if it does not exist or cannot be read, creating an agent fails;
2. `$HOME/.nixl.cfg`;
3. `/etc/nixl.cfg`.

A default file that the process may not open is passed over with a warning. `NIXL_CONFIG_FILE=/dev/null` turns the
default files off. The file is TOML with the names at its top level, and at most 1 MiB long:

```toml
)";

constexpr std::string_view kBetween = R"(```

Files are read with toml++. A library that was built on a machine without its headers (Debian: `libtomlplusplus-dev`)
reads no file: it warns about a default file that it finds, and creating an agent fails if `NIXL_CONFIG_FILE` names
one. The environment works the same.

## How values are written

| type | in the environment | in the file |
|---|---|---|
| switch | `y`, `yes`, `on`, `true`, `enable`, `1` or `n`, `no`, `off`, `false`, `disable`, `0`, in any case of letters, without blanks | the same words as a string, `true`, `false`, `1` or `0` |
| number | digits, or `0x` and hexadecimal digits; no sign, no blanks, no unit | an integer, or a string as in the environment |
| level | `TRACE`, `DEBUG`, `INFO`, `WARN`, `ERROR` or `FATAL`, in any case of letters | a string |
| text | as it is | a string |

A number in milliseconds or bytes is a plain number; its bounds are in the table.

## What is reported

- A value that its option does not accept: creating an agent fails, and the message names the option, the value,
  where it stands and what is accepted. An unknown log level is a warning, and the level is `WARN`.
- A file that is not TOML: creating an agent fails with file, line and reason.
- A key of the file that the environment hides, and a variable or key that begins with `NIXL_` and is no option: a
  warning, once for each process, with the nearest name that is one.
- Variables of parts of NIXL that this build does not contain, such as `NIXL_UCX_DEEPBIND`: a line at level `INFO`.

## Options

| name | type | default | meaning |
|---|---|---|---|
)";

constexpr std::string_view kAfter = R"(
`NIXL_CONFIG_FILE` is read from the environment only. The Python package also reads `NIXL_LOG_LEVEL`, for its own log
lines, and `NIXL_DEBUG_LOGGING`, which makes errors inside Python's logging visible; both from the environment.
)";

std::string
typeOf(const nixl::OptionRow &row) {
    using nixl::Options;

    struct {
        const nixl::OptionRow &row;

        std::string
        operator()(std::string Options::*) const {
            return "text";
        }

        std::string
        operator()(bool Options::*) const {
            return "switch";
        }

        std::string
        operator()(std::optional<bool> Options::*) const {
            return "switch";
        }

        std::string
        operator()(nixl::LogLevel Options::*) const {
            return "level";
        }

        std::string
        operator()(unsigned Options::*) const {
            return bounded("number");
        }

        std::string
        operator()(std::uint64_t Options::*) const {
            return bounded("number");
        }

        std::string
        operator()(std::chrono::milliseconds Options::*) const {
            return bounded("number");
        }

        std::string
        bounded(const char *what) const {
            return concat(what, ", ", row.least, " to ", row.most);
        }
    } print{row};

    return std::visit(print, row.field);
}

std::string
page() {
    std::ostringstream out;
    out << kBefore << kExample << kBetween;
    const nixl::Options defaults;
    for (const nixl::OptionRow &row : nixl::optionTable()) {
        const std::string value = nixl::optionValue(defaults, row);
        out << "| `" << row.name << "` | " << typeOf(row) << " | "
            << (value.empty() ? std::string(row.whenEmpty) : concat('`', value, '`')) << " | " << row.help
            << " |\n";
    }
    out << kAfter;
    return std::move(out).str();
}

/// The example must do what it shows, without a remark.
bool
exampleIsGood() {
    if (!nixl::readsToml())
        return true;
    const auto options = nixl::resolveOptions({}, nixl::ConfigText{"the example", std::string(kExample)});
    return options.ok() && options.value().notes.empty();
}

int
check(const char *program, const char *file) {
    if (!exampleIsGood()) {
        std::cerr << "the example in tools/configuration_page.cc is not accepted by the library\n";
        return 1;
    }
    std::ifstream in(file, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    if (in && text == page())
        return 0;
    std::cerr << file << " is not what the table of options says. To write it anew:\n  " << program << " > "
              << file << '\n';
    return 1;
}

} // namespace

int
main(int argc, char **argv) {
    if (argc == 3 && std::strcmp(argv[1], "--check") == 0)
        return check(argv[0], argv[2]);
    if (argc != 1) {
        std::cerr << "usage: " << argv[0] << " [--check FILE]\n";
        return 2;
    }
    std::cout << page();
    return std::cout.flush() ? 0 : 1;
}
