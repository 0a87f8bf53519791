// Exports the right name, but was built from other headers.
extern "C" __attribute__((visibility("default"))) void *
nixl_telemetry_plugin_init() {
    static int other[8];
    return other;
}
