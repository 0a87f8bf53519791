"""Whole programs in an interpreter of their own: what is imported, and how they end."""

import os
import subprocess
import sys
import textwrap

import pytest
from nixl import _bindings as nixlBind

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


def run(*parts):
    script = "\n".join(textwrap.dedent(part) for part in parts)
    # The library warns of settings that it does not know, such as those of the tests.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NIXL_")}
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
