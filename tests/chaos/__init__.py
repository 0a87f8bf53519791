"""A test bed of processes that come, go, stop and come back; docs/reliability.md says what it injects and checks."""
