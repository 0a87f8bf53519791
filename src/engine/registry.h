// Which engines exist: those linked in, and those that lie as files in the plugin directories.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "util/dynamic_library.h"

namespace nixl {

/// Number of the interface in engine.h; a loadable engine built against another one is refused.
inline constexpr int kEngineAbi = 5;

/// What a loadable engine exports as `extern "C" const nixl::EngineModule *nixl_engine_init()`.
struct EngineModule {
    int abi; ///< kEngineAbi
    EngineFactory *(*createFactory)();
};

/// Makes a factory from a library that does not export nixl_engine_init but something that it knows.
/// Returns nullptr if the library is not of its kind, an error if it is but cannot be used.
using ModuleAdapter = std::function<Result<std::shared_ptr<EngineFactory>>(std::shared_ptr<DynamicLibrary>)>;

class EngineRegistry {
public:
    /// Directories are searched in order for libplugin_NAME.so; they are listed here, once, and loaded later.
    /// A built-in engine wins over a file of its name; of several files the first that can be used.
    EngineRegistry(std::vector<std::shared_ptr<EngineFactory>> builtin, std::vector<ModuleAdapter> adapters,
                   std::vector<std::string> directories);

    /// Names of all engines, built in first, then by name.
    std::vector<std::string> names() const;

    /// The factory of an engine, loading its file at the first call; the outcome, good or bad, is kept. Names
    /// are case-sensitive. Any thread; only callers that ask for the same engine wait for each other.
    /// NIXL_ERR_NOT_FOUND: no such engine (the message lists what exists and where was looked), or its file
    /// cannot be used (the message says why).
    Result<std::shared_ptr<EngineFactory>> find(const std::string &name);

    /// The factory whose engine joins network engines: one that is built in. nullptr if there is none.
    std::shared_ptr<EngineFactory> joining() const;

private:
    struct State;
    std::shared_ptr<State> state_;
};

} // namespace nixl
