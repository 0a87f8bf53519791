#include "engines/south_bound/entry.h"

#include "engines/south_bound/plugin.h"

namespace nixl {

ModuleAdapter
southBoundAdapter() {
    return
        [](std::shared_ptr<DynamicLibrary> library) { return south_bound::openPlugin(std::move(library)); };
}

} // namespace nixl
