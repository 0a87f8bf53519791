// A shared library opened at run time.
#pragma once

#include <memory>
#include <string>

#include "util/status.h"

namespace nixl {

/// Stays loaded until the process ends: code of it may run in threads and destructors that nobody tracks.
class DynamicLibrary {
public:
    /// Opens with local symbols, all of them bound now. NIXL_ERR_NOT_FOUND with the loader's words.
    static Result<std::shared_ptr<DynamicLibrary>> open(const std::string &path);

    /// Address of an exported symbol, nullptr if there is none.
    void *symbol(const char *name) const;

    template<typename Function>
    Function
    function(const char *name) const {
        return reinterpret_cast<Function>(symbol(name));
    }

    const std::string &
    path() const {
        return path_;
    }

private:
    DynamicLibrary(std::string path, void *handle) : path_(std::move(path)), handle_(handle) {}

    std::string path_;
    void *handle_;
};

} // namespace nixl
