/**
 * @file utils/serdes/serdes.h
 * A container of tagged strings and buffers: the envelope of all metadata and serialized lists. Its bytes are
 * described in docs/wire-format.md.
 */
#ifndef NIXL_UTILS_SERDES_H
#define NIXL_UTILS_SERDES_H

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "nixl_types.h"

namespace nixl {
struct SerDesAccess;
}

/**
 * Items are written and read strictly in order. A container is made by add calls or by importStr(); a cursor
 * stands before the first item, and each get that succeeds moves it behind one item. A get that fails leaves
 * it where it was and logs the cause. Bytes from outside may be arbitrary: no call reads beyond the container
 * or takes memory for what is not there.
 *
 * Threads: no locks inside; one thread at a time.
 */
class NIXL_EXPORT nixlSerDes {
public:
    /** An empty container. */
    nixlSerDes();

    /** Appends an item. Always NIXL_SUCCESS. A tag may be empty; readers must know it. */
    nixl_status_t addStr(const std::string &tag, const std::string &str);

    /** The payload of the next item; empty if its tag is another one or the container is cut off there. */
    std::string getStr(const std::string &tag);

    /** Appends `len` bytes of `buf`. NIXL_ERR_INVALID_PARAM: len is negative, or buf is null and len is not
     * 0. */
    nixl_status_t addBuf(const std::string &tag, const void *buf, ssize_t len);

    /** Length of the next item's payload without moving on; -1 where getStr() would fail. */
    ssize_t getBufLen(const std::string &tag) const;

    /**
     * Copies the payload of the next item to `buf`. NIXL_ERR_MISMATCH, and nothing is copied: another tag,
     * another length than `len`, or cut off. NIXL_ERR_INVALID_PARAM: len is negative, or buf is null and len
     * is not 0.
     */
    nixl_status_t getBuf(const std::string &tag, void *buf, ssize_t len);

    /** The container's bytes. */
    std::string exportStr() const;

    /**
     * Replaces the content and puts the cursor before its first item. NIXL_ERR_MISMATCH: `sdbuf` does not
     * begin as a container does; the old content stays.
     */
    nixl_status_t importStr(const std::string &sdbuf);

    /** `size` bytes of `buf` as a string; empty if there are none. */
    static std::string _bytesToString(const void *buf, ssize_t size);

    /** Fills `size` bytes at `fill_buf` from the front of `s`, with zeros where `s` is shorter. */
    static void _stringToBytes(void *fill_buf, const std::string &s, ssize_t size);

private:
    friend struct nixl::SerDesAccess;

    std::string bytes_;
    std::size_t cursor_;
};

#endif
