// The engines that are linked into the library.
#include "engine/process_registry.h"
#include "engines/local/entry.h"
#include "engines/south_bound/entry.h"
#include "engines/ucx/entry.h"

namespace nixl {

BuiltinEngines
builtinEngines() {
    return {{makeUcxEngineFactory(), makeLocalEngineFactory()}, {southBoundAdapter()}};
}

} // namespace nixl
