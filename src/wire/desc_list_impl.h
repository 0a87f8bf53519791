// Definitions of the members of nixlDescList that nixl_descriptors.h only declares. A source that owns a
// class of descriptors includes this and instantiates the list: template class nixlDescList<T>;
#pragma once

#include <cstddef>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "nixl_descriptors.h"
#include "util/log.h"
#include "wire/desc_list.h"
#include "wire/serdes_access.h"

namespace nixl {

/// A descriptor in words: "addr 0x7f00, len 64, devId 0" and what its class adds. Classes without an overload
/// of their own show the basic part.
std::string describe(const nixlBasicDesc &desc);
std::string describe(const nixlBlobDesc &desc);
std::string describe(const nixlRemoteDesc &desc);
std::string describe(const nixlStrideDesc &desc);

/// Lists of these have an encoding.
template<typename T>
inline constexpr bool kSerializable = std::is_same_v<T, nixlBasicDesc> || std::is_same_v<T, nixlBlobDesc>;

template<typename T>
Result<nixlDescList<T>>
takeList(Reader &reader) {
    if constexpr (std::is_same_v<T, nixlBasicDesc>)
        return takeXferList(reader);
    else
        return takeRegList(reader);
}

} // namespace nixl

template<class T> nixlDescList<T>::nixlDescList(nixlSerDes *deserializer) : nixlDescList(DRAM_SEG) {
    if constexpr (nixl::kSerializable<T>) {
        if (!deserializer) {
            NIXL_LOG(kError, "nixlDescList: no deserializer");
            return;
        }
        nixl::Reader reader = nixl::SerDesAccess::reader(*deserializer);
        auto list = nixl::takeList<T>(reader);
        if (!list.ok()) {
            NIXL_LOG(kError, "nixlDescList: ", list.status().message());
            return;
        }
        *this = std::move(list).value();
        nixl::SerDesAccess::advance(*deserializer, reader);
    } else {
        NIXL_LOG(kError, "nixlDescList: lists of this class have no encoding");
    }
}

template<class T>
nixl_status_t
nixlDescList<T>::serialize([[maybe_unused]] nixlSerDes *serializer) const {
    if constexpr (nixl::kSerializable<T>) {
        if (!serializer)
            return NIXL_ERR_INVALID_PARAM;
        nixl::Writer writer = nixl::SerDesAccess::writer(*serializer);
        nixl::appendList(writer, *this);
        return NIXL_SUCCESS;
    } else {
        return NIXL_ERR_INVALID_PARAM;
    }
}

template<class T>
void
nixlDescList<T>::print() const {
    std::cout << "list of " << descs_.size() << " in " << nixlEnumStrings::memTypeStr(type_) << std::endl;
    for (std::size_t i = 0; i < descs_.size(); ++i)
        NIXL_LOG(kInfo, "  ", i, ": ", nixl::describe(descs_[i]));
}

template<class T>
std::string
nixlDescList<T>::to_string(bool compact) const {
    std::string text = nixl::concat(nixlEnumStrings::memTypeStr(type_), ", ", descs_.size(), " descriptors");
    if (compact) {
        std::map<std::size_t, std::size_t> countOfLength;
        for (const T &desc : descs_)
            ++countOfLength[desc.len];
        for (const auto &[length, count] : countOfLength)
            text += nixl::concat("; ", count, " of ", length, " bytes");
        return text;
    }
    for (std::size_t i = 0; i < descs_.size(); ++i)
        text += nixl::concat("\n  ", i, ": ", nixl::describe(descs_[i]));
    return text;
}

template<class T>
void
nixlDescList<T>::throwOutOfRange(int index) const {
    throw std::out_of_range(
        nixl::concat("no descriptor ", index, " in a list of ", descs_.size(), " descriptors"));
}
