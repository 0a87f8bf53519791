// Calls of the library while other Python threads run.
#pragma once

#include <cxxabi.h>
#include <unistd.h>

#include <type_traits>
#include <utility>

#include <pybind11/pybind11.h>

namespace nixl::python {

/// Takes the GIL again for a thread that gave it away. Where the interpreter has begun to end meanwhile,
/// Python up to 3.13 unwinds the thread instead, through frames that forbid it, which would end the process
/// with an error. The thread stops here in that case, as it does in later versions; the process ends without
/// it.
inline void
takeGilAgain(PyThreadState *thread) {
    try {
        PyEval_RestoreThread(thread);
    } catch (const abi::__forced_unwind &) {
        for (;;)
            pause();
    }
}

/// Runs `call`, which must not touch Python objects, without the GIL.
template<typename Call>
std::invoke_result_t<Call>
withoutGil(Call &&call) {
    PyThreadState *thread = PyEval_SaveThread();
    const auto invoke = [&]() -> std::invoke_result_t<Call> {
        try {
            return std::forward<Call>(call)();
        } catch (...) {
            takeGilAgain(thread);
            throw;
        }
    };
    if constexpr (std::is_void_v<std::invoke_result_t<Call>>) {
        invoke();
        takeGilAgain(thread);
    } else {
        auto result = invoke();
        takeGilAgain(thread);
        return result;
    }
}

} // namespace nixl::python
