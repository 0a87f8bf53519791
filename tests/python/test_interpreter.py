"""Whole programs in an interpreter of their own: what is imported, and how they end."""

import os
import subprocess
import sys
import textwrap
import time

import pytest
from lanes import LANES
from nixl import _bindings as nixlBind

# What is promised for the end of an agent is five seconds; a test on a busy machine waits for ten times that.
ENDS_WITHIN_S = 50

WITHOUT = """
    import sys

    class Refuse:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in ("numpy", "torch"):
                raise ImportError(f"{name} is not here")

    sys.meta_path.insert(0, Refuse())
"""

TRANSFER = """
    from nixl._api import nixl_agent, nixl_agent_config
    from nixl import _utils

    SIZE = 8192
    a, b = (nixl_agent(name, nixl_agent_config(backends=["LOCAL"])) for name in "ab")
    source, target = _utils.malloc_passthru(SIZE), _utils.malloc_passthru(SIZE)
    _utils.ba_buf(source, SIZE)
    a_reg = a.register_memory([(source, SIZE, 0, "")], "DRAM")
    b_reg = b.register_memory([(target, SIZE, 0, "")], "DRAM")
    a.add_remote_agent(b.get_agent_metadata())
    local = a.prep_xfer_dlist("", [(source, SIZE, 0)], "DRAM")
    remote = a.prep_xfer_dlist("b", [(target, SIZE, 0)], "DRAM")
    handle = a.make_prepped_xfer("WRITE", local, [0], remote, range(1), b"done")
    a.transfer(handle)
    while a.check_xfer_state(handle) == "PROC":
        pass
    _utils.verify_transfer(source, target, SIZE)
"""

ENDINGS = {
    "everything is still held": "",
    "handles after their agent": "del a, b",
    "agents after their handles": "del handle, local, remote",
    "a cycle": "a.itself = a; handle_list = [handle]; a.handles = handle_list; del a, handle, local, remote",
    "a running transfer": "a.transfer(handle)",
    "kept by another module": "import builtins; builtins.kept = (a, b, handle, local, remote)",
    "a thread that polls": """
        import threading
        threading.Thread(target=lambda: [a.get_new_notifs() for _ in iter(int, 1)], daemon=True).start()
    """,
    "a process exit with a code": "raise SystemExit(0)",
}


# Two agents, of which `a` has a transfer to `b` that lasts. Every name is a global of the program; such names go in
# their order, so that the memory goes before those who use it.
BUSY = """
    import asyncio, atexit, os, sys, threading, time, weakref
    import numpy as np
    from nixl._api import nixl_agent, nixl_agent_config

    SIZE = 64 << 20
    source, target = np.ones(SIZE, np.uint8), np.zeros(SIZE, np.uint8)
    a, b = (nixl_agent(name, nixl_agent_config(backends=[BACKEND])) for name in "ab")
    a_reg = a.register_memory([(source.ctypes.data, SIZE, 0, "")], "DRAM")
    b_reg = b.register_memory([(target.ctypes.data, SIZE, 0, "")], "DRAM")
    peer = a.add_remote_agent(b.get_agent_metadata())
    b.add_remote_agent(a.get_agent_metadata())
    handle = a.initialize_xfer("WRITE", a_reg.trim(), b_reg.trim(), peer, b"done")

    def thread(target, daemon=True):
        one = threading.Thread(target=target, daemon=daemon)
        one.start()
        return one
"""

# How a program ends that has not finished anything.
EXITS = {
    "a transfer runs": "a.transfer(handle)",
    "transfers run that last": """
        handles = [a.initialize_xfer("WRITE", a_reg.trim(), b_reg.trim(), peer) for _ in range(40)]
        for one in handles:
            a.transfer(one)
        del thread, one  # without a function the names are no cycle, and nothing is finalised before the arrays
    """,
    "its agents go first": "a.transfer(handle); del a, b",
    "threads wait": """
        a.transfer(handle)
        for wait in (b.wait_notif, a.wait_notif, lambda: a.wait(handle), lambda: a.wait_any([handle]),
                     lambda: a.wait_all([handle]), lambda: a.wait_quiet(handle)):
            thread(wait)
        time.sleep(0.01)
    """,
    "threads wait for what never comes": """
        for _ in range(4):
            thread(b.wait_notif)
        time.sleep(0.2)
    """,
    "a thread that is joined at the end": """
        thread(lambda: (time.sleep(0.2), a.transfer(handle), a.wait(handle), b.wait_notif(5)), daemon=False)
    """,
    "a thread exits": """
        def work():
            a.transfer(handle)
            sys.exit(3)
        thread(work, daemon=False).join()
    """,
    "the program exits while threads work": """
        def work():
            while True:
                a.transfer(handle)
                a.wait(handle)
        thread(work)
        time.sleep(0.05)
        sys.exit()
    """,
    "the only names are those of a thread": """
        def work(*held):
            held[0].wait_notif()
        one = threading.Thread(target=work, args=(b, a, handle, source, target), daemon=True)
        one.start()
        del a, b, handle, source, target, one
    """,
    "handlers at exit use it": """
        def last():
            global again
            a.transfer(handle)
            a.wait(handle)
            b.get_new_notifs(), a.peer_events(), b.failed_notifs(), a.send_notif("b", b"x")
            again = a.initialize_xfer("WRITE", a_reg.trim(), b_reg.trim(), peer)
            a.transfer(again)
        atexit.register(last)
        weakref.finalize(a_reg, lambda: b.wait_notif(0.1))
    """,
    "a handler at exit makes agents": """
        kept = []
        def last():
            late = nixl_agent("late", nixl_agent_config(backends=[BACKEND]))
            late.add_remote_agent(b.get_agent_metadata())
            late.send_notif("b", b"x")
            kept.append(late)
        atexit.register(last)
    """,
    "an object uses it as it is destroyed": """
        class Late:
            def __del__(self, a=a, b=b, handle=handle, memory=(source, target)):
                a.transfer(handle), a.wait(handle), b.get_new_notifs(), a.peer_events()
        late = Late()
        late.itself = late
        del a, b, handle
    """,
    "ended twice": """
        a.transfer(handle)
        a.wait(handle)
        for _ in range(2):
            handle.release()
            handle.__del__()
            a.__del__()
        again = a.initialize_xfer("WRITE", a_reg.trim(), b_reg.trim(), peer)
        a.transfer(again)
        bound = a.agent
        del a.agent, a, bound
    """,
    "globals go in an odd order": """
        a.transfer(handle)
        a.wait(handle)
        for name in ("nixl_agent", "b_reg", "target", "peer", "b", "source", "handle", "a_reg", "a"):
            globals().pop(name)
    """,
    "the package is gone first": """
        a.transfer(handle)
        for name in [name for name in sys.modules if name.partition(".")[0] == "nixl"]:
            del sys.modules[name]
        del name
    """,
    "an event loop is left": """
        async def main():
            waiting = [asyncio.ensure_future(a.async_transfer(handle)), asyncio.ensure_future(anext(b.notifications()))]
            await asyncio.sleep(0)
            a.fileno(), b.fileno()
        asyncio.run(main())
        a.transfer(handle)
    """,
    "a forked child ends first": """
        a.transfer(handle)
        child = os.fork()
        if child:
            assert os.waitpid(child, 0) == (child, 0)
        else:
            sys.exit()
    """,
}


def run(*parts, settings=None):
    script = "\n".join(textwrap.dedent(part) for part in parts)
    # The library warns of settings that it does not know, such as those of the tests.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NIXL_")} | (settings or {})
    command = [sys.executable, "-X", "dev", "-c", script]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def test_works_without_numpy_and_torch():
    result = run(WITHOUT, TRANSFER, "print('moved')")
    assert (result.returncode, result.stderr, result.stdout) == (0, "", "moved\n")


def test_imports_nothing_heavy():
    loaded = "print(sorted({'numpy', 'torch', 'importlib.metadata', 'asyncio'} & set(sys.modules)))"
    result = run("import sys", TRANSFER, loaded)
    assert (result.returncode, result.stderr, result.stdout) == (0, "", "[]\n")


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
def test_the_interpreter_ends_in_silence(ending):
    result = run(TRANSFER, ending)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("backend", LANES)
@pytest.mark.parametrize("ending", EXITS.values(), ids=EXITS.keys())
def test_an_interpreter_that_has_work_left_ends_in_silence(ending, backend):
    begin = time.monotonic()
    result = run(f"BACKEND = {backend!r}", BUSY, ending, settings=LANES[backend])
    assert (result.returncode, result.stderr) == (0, "")
    assert time.monotonic() - begin < ENDS_WITHIN_S


INTERRUPT = """
    import sys

    class Interrupt:
        def find_spec(self, name, path=None, target=None):
            if name == "datetime":
                raise KeyboardInterrupt

    sys.modules.pop("datetime", None)
    sys.meta_path.insert(0, Interrupt())
"""


def test_interrupt_while_the_bindings_import_a_module():
    result = run(INTERRUPT, "import nixl")
    # pybind11 makes it the cause of an ImportError.
    assert result.returncode == 1 and "KeyboardInterrupt" in result.stderr


def test_types_are_not_registered_for_other_modules():
    """NIXL's own bindings, loaded beside ours, register C++ types of the same names."""
    kinds = [kind for kind in vars(nixlBind).values() if isinstance(kind, type) and not issubclass(kind, Exception)]
    assert len(kinds) >= 13
    for kind in kinds:
        assert any(name.startswith("__pybind11_module_local") for name in dir(kind)), kind
