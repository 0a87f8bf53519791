// A library with an entry point that only an adapter knows.
extern "C" __attribute__((visibility("default"))) int
nixl_test_foreign_init() {
    return 7;
}
