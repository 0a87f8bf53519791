// A library for the tests of DynamicLibrary.
extern "C" __attribute__((visibility("default"))) int
nixl_test_twice(int value) {
    return 2 * value;
}
