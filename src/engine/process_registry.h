// The engines of the process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/registry.h"

namespace nixl {

/// What is linked into the library; defined beside the engines, since no layer of the core knows them.
struct BuiltinEngines {
    std::vector<std::shared_ptr<EngineFactory>> factories;
    std::vector<ModuleAdapter> adapters; ///< for loadable libraries that are not in this library's own format
};

BuiltinEngines builtinEngines();

/// Where loadable engines and telemetry exporters are looked for, in this order: `pluginDir` (if not empty),
/// the folder `plugins` beside this library.
std::vector<std::string> pluginDirectories(const std::string &pluginDir);

/// The registry that new agents use: the built-in engines and the libraries in pluginDirectories(). Made at
/// the first call for each `pluginDir` and kept. Thread-safe.
std::shared_ptr<EngineRegistry> processRegistry(const std::string &pluginDir);

/// Makes every following processRegistry() return `registry`, or what it would otherwise if null. For tests
/// and for programs that bring their own engines.
void overrideProcessRegistry(std::shared_ptr<EngineRegistry> registry);

} // namespace nixl
