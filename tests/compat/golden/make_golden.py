"""Writes the golden files beside this script. Run it with the Python of an environment that has NIXL's wheel:

    pip install nixl-cu13==1.5.1 numpy
    python make_golden.py [FOLDER]

Memory is mapped at fixed addresses, so that tests know every field; connection information and keys are whatever
UCX gives on this machine, restricted to the loopback device.
"""

import ctypes
import os
import pathlib
import pickle
import sys

os.environ["UCX_NET_DEVICES"] = "lo"
os.environ["NIXL_TELEMETRY_ENABLE"] = "n"

import nixl_cu13._bindings as nixl

FOLDER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
if FOLDER.is_file():
    FOLDER = FOLDER.parent
BASE = 0x1000_0000_0000
STEP = 0x10000


def write(name, data):
    (FOLDER / name).write_bytes(data)
    print(f"{len(data):6} {name}")


def map_memory(address, length):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    read_write, private_anonymous_fixed = 3, 0x02 | 0x20 | 0x100000
    mapped = libc.mmap(address, length, read_write, private_anonymous_fixed, -1, 0)
    if mapped != address:
        raise OSError(ctypes.get_errno(), f"cannot map {length} bytes at {address:#x}")


def make_agent(name, backend, changed=None):
    agent = nixl.nixlAgent(name, nixl.nixlAgentConfig(False))
    params, _ = agent.getPluginParams(backend)
    return agent, agent.createBackend(backend, {**params, **(changed or {})})


def regions(count):
    return [(BASE + i * STEP, 4096 * (i + 1), 0, "") for i in range(count)]


def write_metadata():
    map_memory(BASE, 4 * STEP)
    one, one_ucx = make_agent("golden-one", "UCX")
    one.registerMem(nixl.nixlRegDList(nixl.DRAM_SEG, regions(1)), [one_ucx])
    write("full_1.blob", one.getLocalMD())

    three, three_ucx = make_agent("golden-three", "UCX")
    three.registerMem(nixl.nixlRegDList(nixl.DRAM_SEG, regions(3)), [three_ucx])
    write("full_3.blob", three.getLocalMD())
    part = nixl.nixlRegDList(nixl.DRAM_SEG, [regions(3)[2], regions(3)[0]])
    write("partial_with_connection.blob", three.getLocalPartialMD(part, True, [three_ucx]))
    write("partial_without_connection.blob", three.getLocalPartialMD(part, False, [three_ucx]))
    nothing = nixl.nixlRegDList(nixl.DRAM_SEG, 0)
    write("partial_empty_list.blob", three.getLocalPartialMD(nothing, False, [three_ucx]))

    nested, nested_ucx = make_agent("golden-nested", "UCX")
    inside = [(BASE, 4096, 0, ""), (BASE, STEP, 0, ""), (BASE + 4096, 8192, 0, "")]
    for region in inside:
        nested.registerMem(nixl.nixlRegDList(nixl.DRAM_SEG, [region]), [nested_ucx])
    write("full_nested.blob", nested.getLocalMD())

    threads, threads_ucx = make_agent("golden-threads", "UCX", {"num_threads": "4"})
    threads.registerMem(nixl.nixlRegDList(nixl.DRAM_SEG, regions(1)), [threads_ucx])
    write("full_thread_pool.blob", threads.getLocalMD())

    files, files_posix = make_agent("golden-files", "POSIX")
    write("partial_not_remote.blob", files.getLocalPartialMD(nothing, False, [files_posix]))
    return [one, three, nested, threads, files]


def write_pickles():
    def blocks(count):
        return [(BASE + i * STEP, 4096 * (i + 1), i) for i in range(count)]

    for count in (0, 1, 3):
        write(f"xfer_{count}.pickle", pickle.dumps(nixl.nixlXferDList(nixl.DRAM_SEG, blocks(count)), protocol=4))
    for protocol in (2, 3, 5):
        listed = nixl.nixlXferDList(nixl.VRAM_SEG, [(2**64 - 4096, 4096, 7)])
        write(f"xfer_protocol_{protocol}.pickle", pickle.dumps(listed, protocol=protocol))
    # A state of more than 255 bytes has a longer length field.
    write("xfer_12.pickle", pickle.dumps(nixl.nixlXferDList(nixl.DRAM_SEG, blocks(12)), protocol=4))
    files = nixl.nixlRegDList(nixl.FILE_SEG, [(0, 4096, 3, "/data/a"), (4096, 0, 4, b"\x00\xff|"), (8192, 1, 5, "")])
    write("reg_3.pickle", pickle.dumps(files, protocol=4))
    write("reg_0.pickle", pickle.dumps(nixl.nixlRegDList(nixl.OBJ_SEG, 0), protocol=4))


keep = write_metadata()
write_pickles()
sys.stdout.flush()
os._exit(0)  # the wheel's UCX crashes at a normal exit on some systems
