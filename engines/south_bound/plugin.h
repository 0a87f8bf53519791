// A plugin's library and its description, checked.
#pragma once

#include <memory>

#include "backend/backend_plugin.h"
#include "engine/engine.h"
#include "util/dynamic_library.h"

namespace nixl::south_bound {

/// Constant. Keeps the library.
struct Plugin {
    std::shared_ptr<DynamicLibrary> library; ///< null for a description that is linked in
    const nixlBackendPlugin *description;
    EngineInfo info; ///< `memories` is empty if the plugin does not say
};

/// See southBoundAdapter().
Result<std::shared_ptr<EngineFactory>> openPlugin(std::shared_ptr<DynamicLibrary> library);

/// The factory of a description, which must stay valid. `library` may be null, `origin` is for texts.
/// NIXL_ERR_NOT_FOUND if the description cannot be used.
Result<std::shared_ptr<EngineFactory>> makeFactory(std::shared_ptr<DynamicLibrary> library,
                                                   const nixlBackendPlugin *description,
                                                   const std::string &origin);

} // namespace nixl::south_bound
