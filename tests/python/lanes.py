"""The ways between two processes that tests of waiting take."""

import pytest
from child import Child

LANES = {"LOCAL": {}, "UCX": {"NIXL_LOCAL": "off", "UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo"}}

# (backend, whether there is a progress thread)
MODES = [
    pytest.param((lane, thread), id=f"{lane}-{'' if thread else 'no_'}thread") for lane in LANES for thread in (1, 0)
]


def configure(monkeypatch, mode):
    """Settings of the process for a mode; the arguments of the configuration."""
    lane, thread = mode
    for name, value in LANES[lane].items():
        monkeypatch.setenv(name, value)
    return {"backends": [lane], "enable_prog_thread": bool(thread)}


def child_over(monkeypatch, mode, block, count):
    """A child that is reached in this way."""
    return Child(block, count, **configure(monkeypatch, mode))


def slow_child(monkeypatch, block, count):
    """A child whose transfers last while it is stopped: over UCX it takes part in them."""
    child = child_over(monkeypatch, ("UCX", False), block, count)
    child.agent.make_connection(child.name)
    assert child.agent.transfer(handle := child.request()) and child.agent.wait(handle) == "DONE"
    return child
