// What the list constructors and serialize() need of nixlSerDes beyond its public calls.
#pragma once

#include "utils/serdes/serdes.h"
#include "wire/container.h"

namespace nixl {

struct SerDesAccess {
    /// Reads from the cursor on; the views live as long as the container is not changed.
    static Reader
    reader(const nixlSerDes &serdes) {
        return Reader(serdes.bytes_, serdes.cursor_);
    }

    /// Puts the cursor where `reader`, made by reader(), stands.
    static void
    advance(nixlSerDes &serdes, const Reader &reader) {
        serdes.cursor_ = reader.cursor();
    }

    static Writer
    writer(nixlSerDes &serdes) {
        return Writer(serdes.bytes_);
    }
};

} // namespace nixl
