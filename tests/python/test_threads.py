"""Other Python threads run while a call is in the library."""

import contextlib
import sys
import threading
import time

import pytest
from agents import Memory, local_agent
from nixl import _bindings as nixlBind


class Calls:
    """Calls of every kind that can be repeated as often as wished."""

    def __init__(self, pair):
        agent = pair.a.agent
        memory = Memory()
        local, remote = pair.prepared()
        regions = pair.a.get_reg_descs([memory.region], "DRAM")
        descs = pair.a.get_xfer_descs(pair.source.descs(), "DRAM")
        target = pair.a.get_xfer_descs(pair.target.descs(), "DRAM")
        metadata = pair.b.get_agent_metadata()
        request = pair.a.make_prepped_xfer("WRITE", local, [0], remote, [0])
        write = nixlBind.NIXL_WRITE
        self.keep = (pair, memory, local, remote, request)
        self.calls = {
            "getAvailPlugins": agent.getAvailPlugins,
            "getPluginParams": lambda: agent.getPluginParams("LOCAL"),
            "getBackendParams": lambda: agent.getBackendParams(pair.a.backends["LOCAL"]),
            "createBackend": lambda: agent.createBackend("LOCAL", {}),
            "registerMem": lambda: (agent.registerMem(regions), agent.deregisterMem(regions)),
            "deregisterMem": lambda: agent.deregisterMem(regions),
            "queryMem": lambda: agent.queryMem(regions, pair.a.backends["LOCAL"]),
            "makeConnection": lambda: agent.makeConnection("beta", []),
            "prepXferDlist": lambda: agent.releasedDlistH(agent.prepXferDlist("", descs)),
            "makeXferReq": lambda: agent.releaseXferReq(
                agent.makeXferReq(write, local._handle, [0], remote._handle, [0])
            ),
            "createXferReq": lambda: agent.releaseXferReq(agent.createXferReq(write, descs, target, "beta")),
            "estimateXferCost": lambda: agent.estimateXferCost(request._handle),
            "postXferReq": lambda: agent.postXferReq(request._handle),
            "getXferStatus": lambda: agent.getXferStatus(request._handle),
            "getXferTelemetry": lambda: agent.getXferTelemetry(request._handle),
            "queryXferBackend": lambda: agent.queryXferBackend(request._handle),
            "releaseXferReq": lambda: agent.releaseXferReq(0),
            "releasedDlistH": lambda: agent.releasedDlistH(0),
            "prepMemView": lambda: agent.prepMemView(descs),
            "releaseMemView": lambda: agent.releaseMemView(7),
            "getNotifs": lambda: agent.getNotifs({}),
            "genNotif": lambda: agent.genNotif("alpha", b""),
            "getLocalMD": agent.getLocalMD,
            "getLocalPartialMD": lambda: agent.getLocalPartialMD(pair.a_reg),
            "loadRemoteMD": lambda: agent.loadRemoteMD(metadata),
            "invalidateRemoteMD": lambda: agent.invalidateRemoteMD("nobody"),
            "checkRemoteMD": lambda: agent.checkRemoteMD("beta", descs),
            "sendLocalMD": agent.sendLocalMD,
            "sendLocalPartialMD": lambda: agent.sendLocalPartialMD(pair.a_reg),
            "fetchRemoteMD": lambda: agent.fetchRemoteMD("beta"),
            "invalidateLocalMD": agent.invalidateLocalMD,
            "peerEvents": agent.peerEvents,
            "failedNotifs": agent.failedNotifs,
            "explain": lambda: agent.explain(request._handle),
            "wait": lambda: agent.wait(request._handle, 0),
            "waitAny": lambda: agent.waitAny([request._handle], 0),
            "waitAll": lambda: agent.waitAll([request._handle], 0),
            "waitNotifs": lambda: agent.waitNotifs(0),
            "cancelXferReq": lambda: agent.cancelXferReq(request._handle),
            "drain": lambda: agent.drain(0),
            "isQuiet": lambda: agent.isQuiet(request._handle),
            "watch": agent.watch,
            "the end of an agent": lambda: local_agent("short-lived"),
        }


NAMES = [name for name in vars(nixlBind.nixlAgent) if not name.startswith("_")] + ["the end of an agent"]


@pytest.fixture
def no_switching():
    """Python itself does not take the interpreter from a running thread any more."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.parametrize("name", NAMES)
def test_calls_let_other_threads_run(pair, name, no_switching, capfd):
    call = Calls(pair).calls[name]
    gate = threading.Lock()
    gate.acquire()
    ran = []

    def other():
        gate.acquire()
        ran.append(True)

    thread = threading.Thread(target=other)
    thread.start()
    # From here on the other thread wants the interpreter. Only a call that gives it away lets that thread run; it may
    # have to be made several times until the system wakes the thread in time.
    gate.release()
    end = time.monotonic() + 20
    while not ran and time.monotonic() < end:
        with contextlib.suppress(Exception):
            call()
    assert ran, f"{name} keeps the interpreter"
    thread.join()


def test_a_list_cannot_be_changed_while_a_call_reads_it(pair):
    # While one thread is inside of prepXferDlist with the list, the other sees the refusal sooner or later, and never
    # a crash or a list half changed.
    descs = pair.a.get_xfer_descs(pair.source.descs() * 2000, "DRAM")
    size = len(descs)
    refused = threading.Event()
    stop = threading.Event()

    def change():
        while not stop.is_set():
            try:
                descs.append(pair.source.desc(0))
                descs.remDesc(len(descs) - 1)
            except BufferError:
                refused.set()
                if len(descs) > size:
                    stop.wait(0.001)

    thread = threading.Thread(target=change)
    thread.start()
    end = time.monotonic() + 30
    try:
        while not refused.is_set() and time.monotonic() < end:
            pair.a.prep_xfer_dlist("", descs)
    finally:
        stop.set()
        thread.join()
    assert refused.is_set()


def test_many_threads_use_one_agent(pair):
    errors = []

    def work(position):
        try:
            for _ in range(50):
                local, remote = pair.prepared()
                handle = pair.a.make_prepped_xfer("WRITE", local, [position], remote, [position])
                pair.a.transfer(handle)
                while pair.a.check_xfer_state(handle) == "PROC":
                    pass
                handle.release()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(position,)) for position in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for position in range(4):
        assert pair.target.bytes_of(position) == pair.source.bytes_of(position)


def test_messages_stay_in_order_when_two_threads_take_them():
    agent = local_agent("taker")

    class Arriving:
        """Another thread asks while the first has its message and has not stored it."""

        calls = 0
        other = None

        def getNotifs(self, *_arguments):
            self.calls += 1
            if self.calls > 1:
                return {"peer": [b"second"]}
            self.other = threading.Thread(target=agent.update_notifs)
            self.other.start()
            self.other.join(0.2)  # it waits for the first thread
            return {"peer": [b"first"]}

    real, agent.agent = agent.agent, Arriving()
    agent.update_notifs()
    agent.agent.other.join()
    agent.agent = real
    assert agent.notifs == {"peer": [b"first", b"second"]}
