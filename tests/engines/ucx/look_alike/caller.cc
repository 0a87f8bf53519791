// A library that calls a function of another one.
#include <unistd.h>

extern "C" __attribute__((visibility("default"))) int
parentOfCaller() {
    return getppid();
}
