"""LOCAL beside network engines: what a program sees that asks for a network backend only."""

import logging
import os
from pathlib import Path

import pytest
from agents import Memory, finish, wait_until
from nixl import _bindings as nixlBind
from nixl._api import nixl_agent, nixl_agent_config

ROOT = Path(__file__).resolve().parents[2]
# A network engine, NETWORK, that never starts.
MODULES = Path(os.environ.get("BUILD_DIR_UNDER_TEST", ROOT / "build")) / "tests/unit/engine/modules"


@pytest.fixture
def stranded(monkeypatch):
    """stranded(name): an agent whose program asked for NETWORK."""
    if not (MODULES / "libplugin_NETWORK.so").exists():
        pytest.skip(f"{MODULES} is not built")
    monkeypatch.setenv("NIXL_PLUGIN_DIR", str(MODULES))
    return lambda name: nixl_agent(name, nixl_agent_config(backends=["NETWORK"]))


def test_local_stands_in_for_a_network_that_cannot_start(stranded, capfd):
    a, b = stranded("a"), stranded("b")
    warnings = [line for line in capfd.readouterr().err.splitlines() if "stands in" in line]
    assert len(warnings) == 1 and "NETWORK cannot start: created only in name" in warnings[0], "once per process"
    assert list(a.backends) == ["NETWORK"]
    assert a.get_backend_mem_types("NETWORK") == ["DRAM_SEG"]

    source, target = Memory(seed=1), Memory(seed=2)
    a.register_memory([source.region], "DRAM", backends=["NETWORK"])
    b.register_memory([target.region], "DRAM")
    a.add_remote_agent(b.get_agent_metadata())
    here, there = a.get_xfer_descs(source.descs(), "DRAM"), a.get_xfer_descs(target.descs(), "DRAM")
    handle = a.initialize_xfer("WRITE", here, there, "b", b"done", backends=["NETWORK"])
    assert a.query_xfer_backend(handle) == "NETWORK"
    assert a.explain(handle).path == "LOCAL same process"
    a.transfer(handle)
    finish(a, handle)
    assert (target.data == source.data).all()
    assert wait_until(lambda: b.get_new_notifs(backends=["NETWORK"]), "the message") == {"a": [b"done"]}


def test_nothing_stands_in_if_local_is_switched_off(stranded, monkeypatch):
    monkeypatch.setenv("NIXL_LOCAL", "off")
    with pytest.raises(nixlBind.nixlBackendError, match="created only in name.*switched off by NIXL_LOCAL"):
        stranded("a")


def test_every_engine_at_once(stranded, log_lines):
    agent = nixl_agent("a", None, True)
    assert {"LOCAL", "NETWORK"} <= set(agent.backends)
    assert not any("'NETWORK'" in line for line in log_lines(logging.WARNING)), "it is not skipped"
