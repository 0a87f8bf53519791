"""When a peer's memory is quiet after a request was cancelled: the rows of the table in docs/transfers.md."""

import time

import pytest
from agents import wait_until
from lanes import LANES
from nixl._bindings import nixlCancelledError
from peer_life import COUNT, Far, Near

MIB = 1 << 20
TCP = LANES["UCX"]
# Puts that UCX makes by messages, which the target copies when it is driven.
SHARED = {
    "NIXL_LOCAL": "off",
    "UCX_TLS": "posix,sysv,self",
    "UCX_POSIX_ERROR_HANDLING": "y",
    "UCX_SYSV_ERROR_HANDLING": "y",
}


@pytest.fixture
def pair(monkeypatch):
    """Makes (near, far) with blocks of this size, over an engine with these settings."""
    started = []

    def make(backend, settings, block):
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        far = Far("far", backend, block=block)
        started.append(far)
        far.register()
        near = Near(backend, block=block)
        near.learn(far)
        near.run(near.write(far, count=1))  # connects
        return near, far

    yield make
    for far in started:
        far.kill()


def state(near, handle):
    try:
        return near.agent.check_xfer_state(handle)
    except nixlCancelledError:
        return "CANCELED"


def assert_quiet(far, seconds=0.5):
    before = far.ask("sums")
    time.sleep(seconds)
    assert far.ask("sums") == before, "bytes came after the end"


def test_local_with_the_memory_of_the_initiator(pair):
    """Both sides of a copy end together."""
    near, far = pair("LOCAL", {}, 4 * MIB)
    handle = near.write(far)
    ends = []
    for wait in (0, 0.001, 0.002, 0.005):
        near.memory.data[:] += 1
        near.agent.transfer(handle)
        time.sleep(wait)
        near.agent.cancel(handle)
        wait_until(lambda: ends.append(state(near, handle)) or ends[-1] != "PROC", "the end")
        assert_quiet(far, 0.2)
    assert "CANCELED" in ends


def test_packed_blocks_when_the_target_deregisters(pair):
    """What the target has received and not read is dropped from then on."""
    near, far = pair("UCX", TCP, 4096)
    handle = near.write(far)
    near.memory.data[:] += 1
    far.stop()
    assert near.agent.transfer(handle) == "PROC"
    near.agent.cancel(handle)
    wait_until(lambda: state(near, handle) == "CANCELED", "the end of the cancelled request")
    far.tell("deregister", 0, COUNT)
    far.go_on()
    far.answer()
    assert_quiet(far)


@pytest.mark.parametrize(
    "settings",
    [pytest.param(TCP | {"NIXL_UCX_PACKED_BLOCKS": "off"}, id="tcp"), pytest.param(SHARED, id="shared_memory")],
)
def test_puts_when_what_was_sent_after_them_has_come(pair, settings):
    near, far = pair("UCX", settings, 4096)
    handle = near.write(far)
    for message in (b"first", b"second", b"third"):
        near.memory.data[:] += 1
        far.stop()
        near.agent.transfer(handle)
        near.agent.cancel(handle)
        time.sleep(0.1)
        far.go_on()
        wait_until(lambda: state(near, handle) != "PROC", "the end of the cancelled request")
        near.agent.send_notif("far", message)
        wait_until(lambda message=message: message in far.ask("notifs").get("near", []), "the message")
        assert_quiet(far)
