"""Peers behind a network that stops to carry anything, without a word: two namespaces joined by a veth pair."""

import contextlib
import os
import subprocess
import time

import pytest
from agents import wait_until
from nixl import _bindings as nixlBind
from peer_life import Far, Near

# What is promised is five seconds; a test on a busy machine waits for ten times as long.
TOLD_WITHIN_S = 50


def run(*command, stdin=None):
    subprocess.run(command, input=stdin, text=True, check=True, capture_output=True)


class Cable:
    """Joins this namespace with one of its own, until it is silent."""

    def __init__(self):
        number = os.getpid() % 60000
        self.namespace = f"nixl-peers-{os.getpid()}"
        self.devices = (f"nxn{number}", f"nxf{number}")
        net = f"10.{200 + number % 50}.{number // 50 % 250}"
        run("ip", "netns", "add", self.namespace)
        run("ip", "link", "add", self.devices[0], "type", "veth", "peer", self.devices[1], "netns", self.namespace)
        run("ip", "addr", "add", f"{net}.1/24", "dev", self.devices[0])
        run("ip", "link", "set", self.devices[0], "up")
        run("ip", "-n", self.namespace, "addr", "add", f"{net}.2/24", "dev", self.devices[1])
        run("ip", "-n", self.namespace, "link", "set", self.devices[1], "up")

    def silence(self):
        rules = "table inet silence {\n chain in { type filter hook input priority 0; policy drop; }\n"
        rules += " chain out { type filter hook output priority 0; policy drop; }\n}\n"
        run("ip", "netns", "exec", self.namespace, "nft", "-f", "-", stdin=rules)

    def restore(self):
        run("ip", "netns", "exec", self.namespace, "nft", "delete", "table", "inet", "silence")

    def remove(self):
        with contextlib.suppress(subprocess.CalledProcessError):
            run("ip", "link", "del", self.devices[0])
        run("ip", "netns", "del", self.namespace)


@pytest.fixture(scope="module")  # UCX looks at the routes once in a process
def one_cable():
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    try:
        one = Cable()
    except (OSError, subprocess.CalledProcessError) as reason:
        pytest.skip(f"no namespaces here: {reason}")
    try:
        one.silence()
        one.restore()
    except (OSError, subprocess.CalledProcessError) as reason:
        one.remove()
        pytest.skip(f"no nft here: {reason}")
    yield one
    one.remove()


@pytest.fixture
def cable(one_cable):
    yield one_cable
    with contextlib.suppress(subprocess.CalledProcessError):
        one_cable.restore()


@pytest.fixture
def far(cable, monkeypatch):
    monkeypatch.setenv("NIXL_LOCAL", "off")
    monkeypatch.setenv("UCX_TLS", "tcp")
    monkeypatch.setenv("UCX_NET_DEVICES", cable.devices[1])
    started = Far("far", "UCX", namespace=cable.namespace)
    started.register()
    yield started
    started.kill()


@pytest.fixture
def near(cable, far, monkeypatch):
    monkeypatch.setenv("UCX_NET_DEVICES", cable.devices[0])
    one = Near("UCX")
    one.learn(far)
    one.run(one.write(far))
    return one


def wait_for(near, kind):
    began = time.monotonic()
    wait_until(lambda: kind in near.kinds("far"), f"the event {kind}")
    assert time.monotonic() - began < TOLD_WITHIN_S


def test_a_network_that_goes_without_a_word_loses_the_peer(near, far, cable):
    handle = near.write(far)
    near.agent.send_notif("far", b"before")
    wait_until(lambda: far.ask("notifs") == {"near": [b"before"]}, "a message")
    time.sleep(1)  # it is known to have arrived
    cable.silence()
    assert near.agent.transfer(handle) == "PROC"
    near.agent.send_notif("far", b"after")
    wait_for(near, "lost")
    assert near.kinds("far") == ["joined", "stalled", "undelivered", "lost"] or near.kinds("far") == [
        "joined",
        "stalled",
        "lost",
        "undelivered",
    ]
    (message,) = [event.message for event in near.seen if event.kind == "undelivered"]
    assert message == b"after"
    with pytest.raises((nixlBind.nixlRemoteDisconnectError, nixlBind.nixlNotFoundError)):
        wait_until(lambda: near.agent.check_xfer_state(handle) != "PROC", "the end of a transfer")
    near.agent.release_xfer_handle(handle)

    cable.restore()
    near.learn(far)  # it has been well all the time
    near.run(near.write(far))
    assert near.wrote(far)


def test_an_idle_peer_behind_it_is_lost_too(near, far, cable):
    cable.silence()
    wait_for(near, "lost")


def test_a_network_that_comes_back_in_time_loses_nothing(near, far, cable):
    handle = near.write(far)
    cable.silence()
    assert near.agent.transfer(handle) == "PROC"
    for number in range(50):
        near.agent.send_notif("far", b"%d" % number)
    time.sleep(1.5)
    cable.restore()
    wait_until(lambda: near.agent.check_xfer_state(handle) == "DONE", "the end of a transfer")
    assert near.wrote(far)
    got = []
    wait_until(lambda: got.extend(far.ask("notifs").get("near", [])) or len(got) >= 50, "the messages")
    assert got == [b"%d" % number for number in range(50)]
    assert "lost" not in near.kinds("far")


def test_a_deadline_while_it_is_silent_blocks_nobody(near, far, cable):
    handle = near.write(far)
    cable.silence()
    assert near.agent.transfer(handle, timeout=0.3) == "PROC"
    with pytest.raises(nixlBind.nixlCancelledError):
        wait_until(lambda: near.agent.check_xfer_state(handle) != "PROC", "the deadline")
    # Its connection was cut off, and nobody waits for another one to be opened.
    began = time.monotonic()
    near.agent.send_notif("far", b"x")
    near.agent.get_new_notifs()
    assert near.agent.get_agent_metadata()
    assert time.monotonic() - began < 20, "ten times what a knock may take"
    wait_for(near, "lost")
