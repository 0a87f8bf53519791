// What the rest of the library sees of the same-host engine.
#pragma once

#include <memory>

#include "engine/engine.h"

namespace nixl {

/// The factory of "LOCAL".
std::shared_ptr<EngineFactory> makeLocalEngineFactory();

} // namespace nixl
