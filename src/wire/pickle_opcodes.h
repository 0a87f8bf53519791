// Opcodes of Python's pickle format that pickles of descriptor lists consist of, and the names of all.
#pragma once

#include <cstdint>
#include <string>

namespace nixl::pickle {

enum Opcode : std::uint8_t {
    kProto = 0x80,
    kFrame = 0x95,
    kGlobal = 'c',
    kStackGlobal = 0x93,
    kShortBinUnicode = 0x8c,
    kBinUnicode = 'X',
    kBinUnicode8 = 0x8d,
    kShortBinBytes = 'C',
    kBinBytes = 'B',
    kBinBytes8 = 0x8e,
    kEmptyTuple = ')',
    kTuple2 = 0x86,
    kNewObj = 0x81,
    kReduce = 'R',
    kBuild = 'b',
    kStop = '.',
    kBinPut = 'q',
    kLongBinPut = 'r',
    kMemoize = 0x94,
};

/// "REDUCE (0x52)", as Python's pickletools calls it; "unknown (0x00)".
std::string opcodeName(std::uint8_t code);

} // namespace nixl::pickle
