// The factory of the engine UCX.
#pragma once

#include <memory>

#include "engine/engine.h"

namespace nixl {

std::shared_ptr<EngineFactory> makeUcxEngineFactory();

} // namespace nixl
