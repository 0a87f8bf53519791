// A library that is named like an engine and exports nothing of one.
extern "C" __attribute__((visibility("default"))) int
nixl_test_nothing() {
    return 0;
}
