// What the fuzzers call, one function per parser. Each takes arbitrary bytes and aborts the process if a
// promise of the parser is broken. Unit tests replay the corpus through the same functions.
#pragma once

#include <string_view>

namespace nixl::fuzz {

void serdes(std::string_view bytes);
void metadataBlob(std::string_view bytes);
void pickle(std::string_view bytes);

// In local_targets.cc: a stream of frames, as either side reads it.
void localFrames(std::string_view bytes);

// In ucx_targets.cc, apart from the rest: they need nothing of it.
void elf(std::string_view bytes);
void ucxAddress(std::string_view bytes);
/// The first byte is the minor version of the UCX that packed the key.
void ucxKey(std::string_view bytes);
void ucxBlocks(std::string_view bytes);
void ucxLink(std::string_view bytes);

} // namespace nixl::fuzz
