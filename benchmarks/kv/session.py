"""Measures one implementation: the process that posts transfers, with its target.

Every method that measures returns lists of seconds, one entry per repetition, by name. Whatever it moved is compared
outside of the timed part; a wrong byte raises.
"""

import multiprocessing
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from . import blocks
from .side import LIMIT_S, allocate, copying_threads, huge_share, load, new_agent

_PROGRAM = Path(__file__).parents[1] / "kv_bench.py"
_now = time.perf_counter


class WrongBytes(Exception):
    """A block does not hold what was moved into it, or one changed that nothing was moved into."""


class Session:
    """The initiator and its target, each with `nbytes` of memory of the kind; see side.allocate.

    target_via: a command that runs the target, say in another network namespace.
    """

    def __init__(self, module, backend="UCX", nbytes=64 << 20, kind="private", target_via=()):
        self._module, self._backend = module, backend
        self._pipe, theirs = multiprocessing.Pipe()
        number = str(theirs.fileno())
        program = [sys.executable, str(_PROGRAM), module, "--backend", backend, "--kind", kind]
        command = [*target_via, *program, "--mib", str(nbytes >> 20), "--target", number]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        theirs.close()
        self._api = load(module)
        begin = _now()
        self._agent = new_agent(self._api, "initiator", backend)
        self._agent_s = _now() - begin
        self._data = allocate(module, kind, nbytes)
        blocks.fill(self._data, blocks.LOCAL)
        self._base = self._data.ctypes.data
        self._agent.register_memory([(self._base, nbytes, 0, "")], "DRAM")
        metadata, self._remote_base, remote_share = self._receive()
        self._huge_pages = [huge_share(self._data), remote_share]
        name = self._agent.add_remote_agent(metadata)
        self._peer = name if isinstance(name, str) else name.decode()
        self._ask("meet", self._agent.get_agent_metadata())
        begin = _now()
        self.single("WRITE", 8, 1)
        self._first_s = _now() - begin

    def about(self):
        """Facts for people: how the library was set up and which path a transfer takes, where it says so.

        threads: how many of this process may copy.
        """
        # As much as there can be to copy, so that all threads exist that ever will.
        block = min(65536, self._data.size)
        count = self._data.size // block
        everything = self._request("WRITE", *self._lists(block, *blocks.positions(count, count)))
        self._post_again(everything, 0)
        self._agent.release_xfer_handle(everything)
        self._ask("fill")
        handle = self._request("WRITE", *self._lists(4096, *blocks.positions(self._data.size // 4096, 2)))
        explain = getattr(self._agent, "explain", None)
        path = str(explain(handle)).splitlines()[0] if explain else ""
        self._agent.release_xfer_handle(handle)
        parameters = self._agent.get_plugin_params(self._backend)
        return {
            "path": path,
            "error_mode": parameters.get("ucx_error_handling_mode", ""),
            "threads": copying_threads(),
            "huge_pages": self._huge_pages,
            "agent_s": self._agent_s,
            "first_transfer_s": self._first_s,
        }

    def scattered(self, block, count, repetitions):
        """Blocks at random places, prepared once and posted again: posting alone, and post to done."""
        local, remote = blocks.positions(self._data.size // block, count)
        handles = self._prepared(block, local, remote)
        seconds = {}
        try:
            self._ask("fill")
            blocks.fill(self._data, blocks.LOCAL)
            with self._busy_target():
                seconds["write_post"], seconds["write"] = self._post_again(handles["WRITE"], repetitions)
            self._judge("WRITE", block, self._ask("wrong_block", block, remote, local))
            self._ask("fill")
            with self._busy_target():
                seconds["read_post"], seconds["read"] = self._post_again(handles["READ"], repetitions)
            self._judge("READ", block, blocks.wrong_block(self._data, blocks.LOCAL, block, local, remote))
        finally:
            blocks.fill(self._data, blocks.LOCAL)
            for handle in handles.values():
                self._agent.release_xfer_handle(handle)
        return seconds

    def loopback(self, block, count, repetitions):
        """Blocks from one half of the initiator's memory to the other, without a second process."""
        half = self._data.size // 2
        source, destination = blocks.positions(half // block, count)
        destination = destination + half // block
        lists = (self._descs(self._base, block, numbers) for numbers in (source, destination))
        handle = self._agent.initialize_xfer("WRITE", *lists, "initiator")
        _, seconds = self._post_again(handle, repetitions)
        self._agent.release_xfer_handle(handle)
        moved = self._data.reshape(-1, block)
        if not np.array_equal(moved[destination], moved[source]):
            raise WrongBytes("loop-back: a block is not what was moved")
        blocks.fill(self._data, blocks.LOCAL)
        return {"write": seconds}

    def single(self, operation, size, repetitions):
        """One piece, from the first to the last place of that size."""
        last = self._data.size // size - 1
        local, remote = np.array([0]), np.array([last])
        handle = self._request(operation, *self._lists(size, local, remote))
        with self._busy_target():
            _, seconds = self._post_again(handle, repetitions)
        self._agent.release_xfer_handle(handle)
        if operation == "WRITE":
            wrong = self._ask("wrong_copy", size, last, 0)
            self._ask("fill")
        else:
            wrong = blocks.wrong_copy(self._data, blocks.LOCAL, size, 0, last)
            blocks.fill(self._data[:size], blocks.LOCAL)
        self._judge(operation, size, 0 if wrong else None)
        return {operation.lower(): seconds}

    def calls(self, block, count, repetitions):
        """What a program pays before it can post: lists from arrays and tuples, preparing, making requests."""
        agent = self._agent
        local, remote = blocks.positions(self._data.size // block, count)
        local_rows = blocks.rows(self._base, block, local)
        remote_rows = blocks.rows(self._remote_base, block, remote)
        tuples = [tuple(row) for row in local_rows.tolist()]
        indices = np.arange(local.size, dtype=np.int32)
        seconds = {}

        def timed(name, call, *given):
            begin = _now()
            result = call(*given)
            seconds.setdefault(name, []).append(_now() - begin)
            return result

        for _ in range(repetitions):
            ours = timed("descs_array", agent.get_xfer_descs, local_rows, "DRAM")
            theirs = agent.get_xfer_descs(remote_rows, "DRAM")
            timed("descs_tuples", agent.get_xfer_descs, tuples, "DRAM")
            near = timed("prep_local", agent.prep_xfer_dlist, "", ours)
            far = timed("prep_remote", agent.prep_xfer_dlist, self._peer, theirs)
            made = timed("make", agent.make_prepped_xfer, "WRITE", near, indices, far, indices, b"x")
            agent.release_xfer_handle(made)
            made = timed("initialize", agent.initialize_xfer, "WRITE", ours, theirs, self._peer)
            agent.release_xfer_handle(made)
            agent.release_dlist_handle(near)
            agent.release_dlist_handle(far)
        return seconds

    def many_descs(self, count, repetitions):
        """Lists of very many blocks from tuples, an N x 3 array and, where it is understood, one strided row."""
        block = max(8, self._data.size // count // 8 * 8)
        table = blocks.rows(self._base, block, np.arange(count) % (self._data.size // block))
        tuples = [tuple(row) for row in table.tolist()]
        strided = np.array([[self._base, 8, 0, 8, min(count, self._data.size // 8)]], dtype=np.uint64)
        seconds = {}
        for _ in range(repetitions):
            for name, form in (("tuples", tuples), ("array", table), ("strided", strided)):
                try:
                    begin = _now()
                    handle = self._agent.prep_xfer_dlist("", form, "DRAM")
                    seconds.setdefault(f"prep_{name}", []).append(_now() - begin)
                except Exception:
                    if name != "strided":
                        raise
                    continue
                self._agent.release_dlist_handle(handle)
            for name, form in (("tuples", tuples), ("array", table)):
                begin = _now()
                self._agent.get_xfer_descs(form, "DRAM")
                seconds.setdefault(f"descs_{name}", []).append(_now() - begin)
        return seconds

    def notifications(self, seconds, messages):
        """Round trips until the time is up, and `messages` in one direction: seconds per round trip, per message."""
        self._pipe.send(("echo",))
        self._receive()
        trips = []
        end = _now() + seconds
        while not trips or _now() < end:
            begin = _now()
            self._agent.send_notif(self._peer, b"ping")
            while not self._agent.get_new_notifs():
                pass
            trips.append(_now() - begin)
        self._agent.send_notif(self._peer, b"stop")
        self._receive()
        self._pipe.send(("count", messages))
        self._receive()
        begin = _now()
        for _ in range(messages):
            self._agent.send_notif(self._peer, b"m" * 32)
        self._receive()
        return {"round_trip": trips, "one_way": [(_now() - begin) / messages]}

    def regions(self, count, repetitions):
        """`count` registrations: making them, the metadata that tells of them, a peer loading it."""
        size = self._data.size // count // 8 * 8
        pieces = [(self._base + i * size, size, 0, "") for i in range(count)]
        seconds = {}
        for _ in range(repetitions):
            agent = new_agent(self._api, "many", self._backend)
            begin = _now()
            registered = agent.register_memory(pieces, "DRAM")
            after_register = _now()
            metadata = agent.get_agent_metadata()
            after_get = _now()
            self._agent.add_remote_agent(metadata)
            after_load = _now()
            self._agent.remove_remote_agent("many")
            agent.deregister_memory(registered)
            for name, taken in (
                ("register", after_register - begin),
                ("get_metadata", after_get - after_register),
                ("load_metadata", after_load - after_get),
            ):
                seconds.setdefault(name, []).append(taken)
        return seconds

    def views(self, count, rounds):
        """`count` views inside the registered memory, registered and deregistered in every round."""
        size = self._data.size // count // 8 * 8
        pieces = [(self._base + i * size, size, 0, "") for i in range(count)]
        taken = []
        for _ in range(rounds):
            begin = _now()
            self._agent.deregister_memory(self._agent.register_memory(pieces, "DRAM"))
            taken.append(_now() - begin)
        return {"second_round": taken[1:2], "last_round": taken[-1:]}

    def idle(self, seconds):
        """Processor time of the initiator, whose threads have nothing to do, per second."""
        time.sleep(0.2)
        wall, used = _now(), time.process_time()
        time.sleep(seconds)
        return {"share": [(time.process_time() - used) / (_now() - wall)]}

    def _receive(self):
        if not self._pipe.poll(LIMIT_S):
            raise TimeoutError(f"the target did not answer within {LIMIT_S} s")
        return self._pipe.recv()

    def _ask(self, *command):
        self._pipe.send(command)
        return self._receive()

    def _busy_target(self):
        return _Busy(self._ask)

    def _descs(self, base, block, numbers):
        return self._agent.get_xfer_descs(blocks.rows(base, block, numbers), "DRAM")

    def _lists(self, block, local, remote):
        return self._descs(self._base, block, local), self._descs(self._remote_base, block, remote)

    def _request(self, operation, local_list, remote_list):
        return self._agent.initialize_xfer(operation, local_list, remote_list, self._peer)

    def _prepared(self, block, local, remote):
        local_list, remote_list = self._lists(block, local, remote)
        ours = self._agent.prep_xfer_dlist("", local_list)
        theirs = self._agent.prep_xfer_dlist(self._peer, remote_list)
        indices = np.arange(local.size, dtype=np.int32)
        handles = {}
        for operation in ("WRITE", "READ"):
            handles[operation] = self._agent.make_prepped_xfer(operation, ours, indices, theirs, indices)
        self._agent.release_dlist_handle(ours)
        self._agent.release_dlist_handle(theirs)
        return handles

    def _post_again(self, handle, repetitions):
        """(seconds of the post alone, seconds from post to done) of every repetition, after one that opens the way."""
        agent = self._agent
        posts, totals = [], []
        for _ in range(repetitions + 1):
            begin = _now()
            state = agent.transfer(handle)
            posted = _now()
            while state == "PROC":
                state = agent.check_xfer_state(handle)
            done = _now()
            if state != "DONE":
                raise RuntimeError(f"a transfer ended as {state}")
            posts.append(posted - begin)
            totals.append(done - begin)
        return posts[1:], totals[1:]

    @staticmethod
    def _judge(operation, block, wrong):
        if wrong is not None:
            raise WrongBytes(f"{operation} of blocks of {block} bytes: block {wrong} does not hold what it must")


class _Busy:
    """While it lasts the target looks for notifications, as a server does."""

    def __init__(self, ask):
        self._ask = ask

    def __enter__(self):
        self._ask("busy", True)

    def __exit__(self, *_):
        self._ask("busy", False)
