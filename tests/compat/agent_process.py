"""A process with agents that a test drives: the same program for our package and for NIXL's wheel.

    python agent_process.py PACKAGE

PACKAGE is what the interpreter has: `nixl`, or `nixl_cu13`. Each line of the standard input is a call, [command,
keyword arguments] as JSON; each line of the output is its result, ["ok", result] or ["error", class, text]. Bytes
stand there as {"base64": text}. The process ends when its input does.
"""

import base64
import faulthandler
import gc
import hashlib
import importlib
import json
import os
import select
import sys
import time
import traceback

import numpy as np

WAIT_SECONDS = 60


def _bytes_to_json(value):
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    raise TypeError(f"{type(value).__name__} is not for JSON")


def encode(value):
    return json.dumps(value, default=_bytes_to_json).encode() + b"\n"


def decode(line):
    return json.loads(line, object_hook=lambda found: base64.b64decode(found["base64"]) if "base64" in found else found)


def content(size, seed):
    """What a region of this size and seed holds in the beginning, in every process."""
    return np.frombuffer(np.random.default_rng(seed).bytes(size), np.uint8).copy()


def digests(data, block):
    """A short text per block of an array, different for different bytes."""
    return [hashlib.blake2b(data[at : at + block], digest_size=8).hexdigest() for at in range(0, data.size, block)]


def wait_for(condition, what):
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {WAIT_SECONDS} s for {what}")
        time.sleep(0.0005)


class HostedAgent:
    """One agent with its memory. The methods without underscore are the commands."""

    def __init__(self, package, name, progress_thread, num_threads, params):
        self._api = importlib.import_module(f"{package}._api")
        config = self._api.nixl_agent_config(
            enable_prog_thread=progress_thread, backends=[], num_threads=num_threads, capture_telemetry=True
        )
        self._agent = self._api.nixl_agent(name, config)
        self._agent.create_backend("UCX", params)
        self._memory = {}
        self._polled = not progress_thread

    def _idle(self):
        """Between commands: without a thread an agent makes progress only inside of its calls."""
        if self._polled:
            self._agent.update_notifs()

    def _region(self, region):
        data = self._memory[region]
        return (data.ctypes.data, data.nbytes, 0, "")

    def _xfer_list(self, descs):
        return self._agent.get_xfer_descs([tuple(desc) for desc in descs], "DRAM")

    # ---- Memory ----

    def register(self, region, size, seed):
        self._memory[region] = content(size, seed)
        self._agent.register_memory([self._region(region)], "DRAM", ["UCX"])
        return self._memory[region].ctypes.data

    def register_part(self, region, offset, size):
        """A registration inside of a region that is there already."""
        address = self._memory[region].ctypes.data + offset
        self._agent.register_memory([(address, size, 0, "")], "DRAM", ["UCX"])

    def deregister(self, region):
        self._agent.deregister_memory(self._agent.get_reg_descs([self._region(region)], "DRAM"), ["UCX"])

    def digests(self, region, block):
        return digests(self._memory[region], block)

    # ---- Peers ----

    def metadata(self):
        return self._agent.get_agent_metadata()

    def partial_metadata(self, regions, connection):
        if regions:
            descs = self._agent.get_reg_descs([self._region(region) for region in regions], "DRAM")
        else:
            descs = self._api.nixlBind.nixlRegDList(self._api.nixlBind.DRAM_SEG, 0)
        return self._agent.get_partial_agent_metadata(descs, connection, ["UCX"])

    def add(self, blob):
        return self._agent.add_remote_agent(blob)

    def remove(self, peer):
        self._agent.remove_remote_agent(peer)

    def knows(self, peer, descs=None):
        return self._agent.check_remote_metadata(peer, None if descs is None else self._xfer_list(descs))

    def connect(self, peer):
        self._agent.make_connection(peer, ["UCX"])

    def peer_events(self):
        """[(peer, kind)], of ours alone."""
        return [(event.peer, event.kind) for event in self._agent.peer_events()]

    # ---- Transfers ----

    def _run(self, handle, times):
        for _ in range(times):
            state = self._agent.transfer(handle)
            if state == "PROC":
                wait_for(lambda: self._agent.check_xfer_state(handle) != "PROC", "the end of a transfer")
                state = self._agent.check_xfer_state(handle)
            if state != "DONE":
                raise RuntimeError(f"the transfer ended as {state}")
        telemetry = self._agent.get_xfer_telemetry(handle)
        done = {"bytes": telemetry.totalBytes, "backend": self._agent.query_xfer_backend(handle)}
        self._agent.release_xfer_handle(handle)
        return done

    def transfer(self, operation, peer, local, remote, message=b"", times=1):
        """Two lists at once."""
        handle = self._agent.initialize_xfer(operation, self._xfer_list(local), self._xfer_list(remote), peer, message)
        return self._run(handle, times)

    def transfer_prepared(self, operation, peer, local, local_indices, remote, remote_indices, message=b"", times=1):
        """Lists that are prepared first, and chosen blocks of them."""
        sides = (
            self._agent.prep_xfer_dlist("NIXL_INIT_AGENT", self._xfer_list(local)),
            self._agent.prep_xfer_dlist(peer, self._xfer_list(remote)),
        )
        handle = self._agent.make_prepped_xfer(
            operation,
            sides[0],
            np.array(local_indices, np.int32),
            sides[1],
            np.array(remote_indices, np.int32),
            message,
        )
        done = self._run(handle, times)
        for side in sides:
            self._agent.release_dlist_handle(side)
        return done

    # ---- Notifications ----

    def notify(self, peer, message):
        self._agent.send_notif(peer, message)

    def messages(self, count):
        """All messages since the last call, at least `count` of them, by sender."""

        def arrived():
            return sum(map(len, self._agent.update_notifs().values())) >= count

        wait_for(arrived, f"{count} messages")
        found, self._agent.notifs = self._agent.notifs, {}
        return {name: list(texts) for name, texts in found.items() if texts}

    # ---- Serialized lists ----

    def serialize(self, kind, memory, descs):
        made = getattr(self._api.nixlBind, kind)(getattr(self._api.nixlBind, memory), [tuple(desc) for desc in descs])
        return self._agent.get_serialized_descs(made)

    def deserialize(self, text):
        """[class, memory, descriptors]"""
        found = self._agent.deserialize_descs(text)
        return [type(found).__name__, found.getType().name, [list(found[i]) for i in range(found.descCount())]]


class Host:
    """The agents of this process, by name."""

    def __init__(self, package):
        self.package = package
        self.agents = {}

    def call(self, command, agent=None, **arguments):
        if command == "version":
            bindings = importlib.import_module(f"{self.package}._bindings")
            return {"bindings": bindings.__file__, "python": sys.version.split()[0]}
        if command == "create":
            self.agents[agent] = HostedAgent(self.package, agent, **arguments)
            return None
        if command == "drop":
            del self.agents[agent]
            gc.collect()
            return None
        return getattr(self.agents[agent], command)(**arguments)

    def idle(self):
        for agent in self.agents.values():
            agent._idle()


def serve(package, calls, results):
    host = Host(package)
    while True:
        while not select.select([calls], [], [], 0.001)[0]:
            host.idle()
        # One call is under way at a time, so nothing can be left in the buffer when select is asked.
        line = calls.readline()
        if not line:
            return
        command, arguments = decode(line)
        try:
            result = ["ok", host.call(command, **arguments)]
        except Exception as error:
            traceback.print_exc()
            result = ["error", type(error).__name__, str(error)]
        results.write(encode(result))
        results.flush()


if __name__ == "__main__":
    faulthandler.enable()
    # Standard output is for results; what libraries print there goes to the standard error.
    with os.fdopen(os.dup(1), "wb") as own_output:
        os.dup2(2, 1)
        serve(sys.argv[1], sys.stdin.buffer, own_output)
        # The wheel's UCX crashes at a normal exit on some systems.
        os._exit(0)
