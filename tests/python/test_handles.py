"""Handles that cannot be released yet, and threads for engines: what needs no engine to be seen."""

import gc
import logging

import pytest
from nixl import _bindings as nixlBind
from nixl._api import nixl_agent, nixl_agent_config, nixl_prepped_dlist_handle, nixl_xfer_handle
from nixl._config import thread_parameters


class Inner:
    """Stands in for the bound agent: refuses the first `refusals` releases."""

    def __init__(self, refusals):
        self.refusals = refusals
        self.released = []

    def releaseXferReq(self, handle):
        if self.refusals:
            self.refusals -= 1
            raise nixlBind.nixlRepostActiveError("NIXL_ERR_REPOST_ACTIVE: still running")
        self.released.append(handle)

    releasedDlistH = releaseXferReq


@pytest.fixture
def agent():
    return nixl_agent("a", nixl_agent_config(backends=[]))


def test_a_running_transfer_can_be_released_again(agent):
    agent.agent = inner = Inner(refusals=1)
    handle = nixl_xfer_handle(agent, 0x10)
    with pytest.raises(nixlBind.nixlRepostActiveError):
        agent.release_xfer_handle(handle)
    assert repr(handle) == "nixl_xfer_handle(0x10, released=False)"
    agent.release_xfer_handle(handle)
    agent.release_xfer_handle(handle)
    assert inner.released == [0x10]


def test_a_dropped_handle_that_cannot_be_released_is_left_to_the_end_of_its_agent(agent, log_lines):
    agent.agent = inner = Inner(refusals=1)
    handle = nixl_xfer_handle(agent, 0x10)
    del handle
    gc.collect()
    assert (inner.released, agent._leaked_xfer_handles) == ([], [0x10])
    (line,) = log_lines(logging.ERROR)
    assert "NIXL_ERR_REPOST_ACTIVE: still running" in line
    del agent.agent
    agent.agent = inner
    agent.__del__()
    assert inner.released == [0x10]


def test_a_dropped_list_is_released(agent):
    agent.agent = inner = Inner(refusals=0)
    nixl_prepped_dlist_handle(agent, 0x20)
    gc.collect()
    assert inner.released == [0x20]


def test_an_agent_whose_construction_failed_leaves_nothing_behind(capsys):
    with pytest.raises(ValueError):
        nixl_agent("")
    gc.collect()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("backend", "declared", "expected"),
    [
        ("UCX", {"num_workers": "1"}, {"num_threads": "4"}),
        ("OBJ", {}, {"num_threads": "4"}),
        ("LIBFABRIC", {}, {"num_threads": "4"}),
        ("GDS_MT", {}, {"thread_count": "4"}),
        ("UCCL", {}, {"num_cpus": "4"}),
        ("NEW", {"thread_count": "1"}, {"thread_count": "4"}),
        ("POSIX", {"ios_pool_size": "65536"}, {}),
    ],
)
def test_threads_go_to_the_parameter_of_the_engine(backend, declared, expected):
    assert thread_parameters(backend, declared, 4) == expected
    assert thread_parameters(backend, declared, 0) == {}
