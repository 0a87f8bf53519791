"""Agents with UCX as clients configure them, and what they ask about it afterwards."""

import uuid

import pytest
from nixl import _bindings as nixlBind
from nixl._api import nixl_agent, nixl_agent_config, nixl_thread_sync_t


def implicit_ucx(channel):
    for config in (
        None,
        nixl_agent_config(),
        nixl_agent_config(num_threads=4, capture_telemetry=True),
        nixl_agent_config(num_threads=1, capture_telemetry=True),
        nixl_agent_config(num_threads=8, capture_telemetry=True),
        nixl_agent_config(capture_telemetry=False),
        nixl_agent_config(backends=["UCX"], enable_prog_thread=False),
    ):
        agent = nixl_agent(str(uuid.uuid4()), config)
        assert list(agent.backends) == ["UCX"]
        assert {"DRAM_SEG", "VRAM_SEG"} >= set(agent.get_backend_mem_types("UCX")) >= {"DRAM_SEG"}
        threads = 0 if config is None else config.num_threads
        assert agent.get_backend_params("UCX").get("num_threads", "0") == str(threads)
        assert agent.get_agent_metadata()


def explicit_ucx(channel):
    for params in (
        {},
        {"num_threads": "4", "engine_config": "RCACHE_ENABLE=n,TLS=^cuda_ipc"},
        {"engine_config": "TLS=^rc_gda", "num_threads": "4"},
        {"num_workers": "2", "split_batch_size": "64", "ucx_error_handling_mode": "none"},
        # What other engines would read is not refused.
        {"file_path": "/nowhere", "use_direct_io": "true"},
    ):
        agent = nixl_agent(str(uuid.uuid4()), nixl_agent_config(backends=[], capture_telemetry=True))
        assert agent.backends == {}
        assert "UCX" in agent.get_plugin_list()
        agent.create_backend("UCX", params)
        assert params.items() <= agent.get_backend_params("UCX").items()
        # Loading one's own metadata is refused, whoever the backend is.
        with pytest.raises(nixlBind.nixlInvalidParamError):
            agent.add_remote_agent(agent.get_agent_metadata())


def wrong_parameters(channel):
    agent = nixl_agent("wrong", nixl_agent_config(backends=[]))
    refusals = (nixlBind.nixlBackendError, nixlBind.nixlInvalidParamError)
    for params in ({"num_workers": "many"}, {"ucx_error_handling_mode": "maybe"}, {"num_threads": "-1"}):
        with pytest.raises(refusals):
            agent.create_backend("UCX", params)
    agent.create_backend("UCX", {})
    with pytest.raises(nixlBind.nixlInvalidParamError):
        agent.create_backend("UCX", {})


def every_synchronisation(channel):
    for mode in nixl_thread_sync_t:
        agent = nixl_agent(str(uuid.uuid4()), nixl_agent_config(sync_mode=mode))
        assert list(agent.backends) == ["UCX"]


def advertised_parameters(channel):
    agent = nixl_agent("asks", nixl_agent_config(backends=[]))
    params = agent.get_plugin_params("UCX")
    assert params["num_workers"] == "1" and params["ucx_error_handling_mode"] == "peer"
    assert "ucx_devices" in params
    assert "DRAM_SEG" in agent.get_plugin_mem_types("UCX")


@pytest.mark.parametrize(
    "client", [implicit_ucx, explicit_ucx, wrong_parameters, every_synchronisation, advertised_parameters]
)
def test_construction(roles, client):
    roles(client)
