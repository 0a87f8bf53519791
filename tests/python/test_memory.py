"""nixl.alloc and nixl.share_memfd: memory that other processes map."""

import fcntl
import gc
import mmap
import multiprocessing
import os

import nixl
import numpy as np
import pytest
from agents import finish, local_agent

F_ADD_SEALS, F_GET_SEALS, F_SEAL_SHRINK = 1033, 1034, 2


def mapped(address):
    """Whether something is mapped there."""
    with open("/proc/self/maps") as maps:
        ranges = (line.split()[0].split("-") for line in maps)
        return any(int(start, 16) <= address < int(end, 16) for start, end in ranges)


def test_is_a_writable_buffer_of_zeros():
    memory = nixl.alloc(10_000)
    assert len(memory) == memory.nbytes == 10_000
    assert memory.page_size == mmap.PAGESIZE and memory.note == ""
    view = memoryview(memory)
    assert view.nbytes == 10_000 and view.format == "B" and not view.readonly
    assert bytes(view) == bytes(10_000)
    array = np.frombuffer(memory, dtype=np.float32)
    assert array.shape == (2500,) and array.ctypes.data == memory.address
    array[:] = 7
    assert np.asarray(memory).view(np.float32)[2499] == 7
    assert repr(memory) == f"<nixlMemory 10000 bytes at {memory.address:#x}>"


def test_views_keep_the_memory():
    memory = nixl.alloc(4096)
    address = memory.address
    array = np.frombuffer(memory, dtype=np.uint8)[100:200]
    del memory
    gc.collect()
    array[:] = 3
    assert array.sum() == 300
    assert mapped(address)
    del array
    gc.collect()
    assert not mapped(address)


def test_torch_takes_it():
    torch = pytest.importorskip("torch")
    memory = nixl.alloc(4096)
    tensor = torch.frombuffer(memory, dtype=torch.float32)
    assert tensor.data_ptr() == memory.address
    tensor.fill_(2)
    assert np.frombuffer(memory, dtype=np.float32).sum() == 2048


@pytest.mark.parametrize("nbytes", [0, -1, 1 << 60])
def test_errors_name_the_size(nbytes):
    error = nixl._bindings.nixlBackendError if nbytes > 0 else nixl._bindings.nixlInvalidParamError
    with pytest.raises(error, match=f"memory of {nbytes} bytes"):
        nixl.alloc(nbytes)


def test_huge_pages_or_the_reason():
    memory = nixl.alloc(4096, huge_pages=True)
    np.frombuffer(memory, dtype=np.uint8)[:] = 1
    assert memory.page_size > mmap.PAGESIZE or memory.note.startswith("no huge pages for 4096 bytes: ")


def test_a_forked_child_shares_the_bytes():
    memory = nixl.alloc(4096)
    pid = os.fork()
    if pid == 0:
        memoryview(memory)[0] = 9
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert memoryview(memory)[0] == 9


def sealed_memfd(nbytes, seals=F_SEAL_SHRINK):
    fd = os.memfd_create("own", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, nbytes)
    if seals:
        fcntl.fcntl(fd, F_ADD_SEALS, seals)
    return fd


def test_own_memfds_are_shared_while_the_object_lives():
    fd = sealed_memfd(8192)
    buffer = mmap.mmap(fd, 8192)
    shared = nixl.share_memfd(fd, buffer)
    os.close(fd)
    assert shared.nbytes == 8192
    memoryview(shared)[8191] = 1
    assert buffer[8191] == 1
    with pytest.raises(BufferError):
        buffer.close()
    del shared
    gc.collect()
    buffer.close()


def test_other_memory_is_not_shared():
    loose = sealed_memfd(4096, seals=0)
    sealed = sealed_memfd(4096)
    invalid = nixl._bindings.nixlInvalidParamError
    with pytest.raises(invalid, match="not sealed against shrinking"):
        nixl.share_memfd(loose, mmap.mmap(loose, 4096))
    with pytest.raises(invalid, match="not mapped from it"):
        nixl.share_memfd(sealed, mmap.mmap(-1, 4096))
    with pytest.raises(invalid, match="is not a memfd"):
        nixl.share_memfd(0, mmap.mmap(sealed, 4096))
    with pytest.raises(ValueError, match="writable"):
        nixl.share_memfd(sealed, b"bytes")
    with pytest.raises(TypeError):
        nixl.share_memfd(sealed, 4096)
    os.close(loose)
    os.close(sealed)


def target(pipe, own):
    if own:
        fd = sealed_memfd(1 << 20)
        keep = buffer = mmap.mmap(fd, 1 << 20)
        memory = nixl.share_memfd(fd, buffer)
        os.close(fd)
    else:
        keep = memory = nixl.alloc(1 << 20)
    array = np.frombuffer(memory, dtype=np.uint8)
    agent = local_agent("target")
    agent.register_memory([(memory.address, memory.nbytes, 0, "")], "DRAM")
    pipe.send((agent.get_agent_metadata(), memory.address))
    while (command := pipe.recv()) != "end":
        if command == "sum":
            pipe.send(int(array.sum()))
        elif command == "fill":
            array[:] = 5
            pipe.send("filled")
    del keep


@pytest.mark.parametrize("own", [False, True])
def test_transfers_between_processes_are_copies(own):
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, own), daemon=True)
    process.start()
    theirs.close()  # so that its end is seen
    metadata, address = pipe.recv()
    agent = local_agent("initiator")
    mine = np.ones(1 << 20, dtype=np.uint8)
    agent.register_memory([(mine.ctypes.data, mine.nbytes, 0, "")], "DRAM")
    name = agent.add_remote_agent(metadata)
    local = agent.get_xfer_descs([(mine.ctypes.data, mine.nbytes, 0)], "DRAM")
    remote = agent.get_xfer_descs([(address, 1 << 20, 0)], "DRAM")
    write = agent.initialize_xfer("WRITE", local, remote, name)
    explanation = agent.explain(write)
    assert explanation.path == "shared mapping", str(explanation)
    assert [option.path for option in explanation.options if option.chosen] == ["shared mapping"]
    assert agent.transfer(write) in ("PROC", "DONE")
    finish(agent, write)
    pipe.send("sum")
    assert pipe.recv() == 1 << 20
    pipe.send("fill")
    pipe.recv()
    read = agent.initialize_xfer("READ", local, remote, name)
    agent.transfer(read)
    finish(agent, read)
    assert (mine == 5).all()
    pipe.send("end")
    process.join()
