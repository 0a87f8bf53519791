"""Runs ours, NIXL and the machine's limit in turns and says how they compare."""
