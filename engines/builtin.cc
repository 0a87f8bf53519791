// The engines that are linked into the library.
#include "engine/process_registry.h"
#include "engines/local/entry.h"
#include "engines/south_bound/entry.h"

namespace nixl {

BuiltinEngines
builtinEngines() {
    return {{makeLocalEngineFactory()}, {southBoundAdapter()}};
}

} // namespace nixl
