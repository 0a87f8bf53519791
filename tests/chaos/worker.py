"""A process of the test bed: an agent with memory, which talks to its peers as it is told.

    python -m chaos.worker '{"package": "nixl", "index": 0, "life": 1, ...}'

Each line of the standard input is a list of commands, [name, arguments...]; each line of the output a list of events,
as chaos/model.py takes them. Times are of CLOCK_MONOTONIC, which all processes of a host share. Runs with NIXL's wheel
too, so it needs the standard library and numpy only.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import faulthandler
import gc
import importlib
import inspect
import json
import os
import random
import select
import signal
import struct
import sys
import time

import numpy as np

from .engines import BREAK
from .stamps import SIZES, Layout, Stamp, content, found, scattered

LANES = 2
# A request may take so long before it is given up as hanging; with a deadline of the library, that and the same again.
HANG_S = 15.0
DEADLINES_S = (1.0, 5.0)
BACK_OFF_S = 0.05
# A slot is left alone so long after a write to it ended with an error: late bytes of it must not meet the next one's.
QUARANTINE_S = 4.0
# Until the target has looked at a write that is done, its slot is not written to again.
UNSEEN = float("inf")
TURN_S = 0.002
USAGE_S = 1.0
STACKS_AFTER_S = 20
GUARD_BYTE = 0xA5
LANDING_BYTE = 0x5A
# kind, lane, number of the message in its lane, slot, version, life of the sender, length of what follows
HEADER = struct.Struct("<cBIBIII")
SHARES = {"write": 55, "silent": 15, "read": 15, "notify": 15}
BREAK_AFTER_S = 2.0


def padding(number: int, length: int) -> bytes:
    """What follows a message's header."""
    return (number.to_bytes(4, "little") * (length // 4 + 1))[:length]


class Flow:
    """What this process has under way with one peer, in one lane: one request at a time."""

    def __init__(self, index: int, lane: int, arena: np.ndarray, seed: str) -> None:
        self.peer = index
        self.lane = lane
        self.arena = arena
        self.dice = random.Random(seed)
        self.slots = [slot for slot in range(len(SIZES)) if slot % LANES == lane]
        self.versions = dict.fromkeys(self.slots, 0)
        self.number = 0
        self.leaving: list[tuple[object, float]] = []
        self.forget()

    def forget(self) -> None:
        """A peer that was started anew knows nothing."""
        self.handles: dict[tuple[str, int], object] = {}
        self.free_at = dict.fromkeys(self.slots, 0.0)
        self.running: dict | None = None
        self.idle_until = 0.0


class Peer:
    def __init__(self, name: str, life: int, inbox: int, flows: list[Flow]) -> None:
        self.name, self.life, self.inbox, self.flows = name, life, inbox, flows
        self.held = False


class Worker:
    def __init__(self, package: str, index: int, life: int, count: int, seed: int, backend: str, parameters: dict,
                 progress_thread: bool, longest_message: int) -> None:  # fmt: skip
        self.api = importlib.import_module(f"{package}._api")
        self.ours = package == "nixl"
        self.index, self.life, self.count = index, life, count
        self.longest_message = longest_message
        self.seed = f"{seed} {index} {life}"
        self.events: list[list] = []
        self.peers: dict[int, Peer] = {}
        self.metadata: dict[int, str] = {}
        self.flowing = True
        self.holding: set[int] = set()
        self.ending = False
        self.layout = Layout(count)
        self.inbox = np.full(self.layout.size, GUARD_BYTE, np.uint8)
        for sender, slot in self.layout.offsets:
            # The own slots are what others read.
            version = 1 if sender == index else 0
            self._slot(sender, slot)[:] = content(Stamp(sender, index, life, slot, version), SIZES[slot])
        self.outbox = np.full(count * LANES * max(SIZES), LANDING_BYTE, np.uint8)
        self.inbox_wanted: np.ndarray | None = None
        config = self.api.nixl_agent_config(enable_prog_thread=progress_thread, backends=[], num_threads=0)
        self.agent = self.api.nixl_agent(f"process-{index}", config)
        self.agent.create_backend(backend, parameters)
        self.has_deadlines = "timeout" in inspect.signature(self.agent.transfer).parameters
        self.agent.register_memory([self._region(self.outbox)], "DRAM")
        self.agent.register_memory([self._region(self.inbox)], "DRAM")
        self.broken = os.environ.get(BREAK, "")
        self.break_at = time.monotonic() + BREAK_AFTER_S
        self.usage_at = 0.0
        self.tell("ready", self.life, self._metadata(), self.inbox.ctypes.data)

    # ---- What the driver hears ----

    def tell(self, name: str, *arguments) -> None:
        self.events.append([name, round(time.monotonic(), 6), *arguments])

    def _metadata(self) -> str:
        return base64.b64encode(self.agent.get_agent_metadata()).decode()

    def _usage(self, now: float) -> None:
        if now < self.usage_at:
            return
        self.usage_at = now + USAGE_S
        faulthandler.dump_traceback_later(STACKS_AFTER_S)
        with open("/proc/self/statm") as statm:
            resident = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        self.tell("usage", len(os.listdir("/proc/self/fd")), resident)

    # ---- Memory ----

    def _slot(self, sender: int, slot: int) -> np.ndarray:
        at = self.layout.offsets[sender, slot]
        return self.inbox[at : at + SIZES[slot]]

    @staticmethod
    def _region(data: np.ndarray) -> tuple[int, int, int, str]:
        return (data.ctypes.data, data.nbytes, 0, "")

    def _breaks(self, what: str) -> bool:
        """Whether this is the moment of the error that the run has to find. It happens once."""
        if self.broken != what or time.monotonic() < self.break_at:
            return False
        self.broken = ""
        return True

    # ---- Commands ----

    def peer(self, index: int, name: str, package: str, life: int, metadata: str, inbox: int) -> None:
        """A peer came, came back or changed."""
        self._hear()
        known = self.peers.get(index)
        stale = [handle for flow in known.flows for handle in flow.handles.values()] if known else []
        if known and known.life != life and not (self.ours and package == "nixl"):
            # NIXL does not know, and its metadata does not say, that an agent was started anew.
            for flow in known.flows:
                self._drop_all(flow)
            self.agent.remove_remote_agent(name)
        self.agent.add_remote_agent(base64.b64decode(metadata))
        self._hear()
        self.metadata[index] = metadata
        if known and known.life == life:
            for flow in known.flows:
                self._drop_all(flow)
        elif known:
            if self.ours and package == "nixl":
                self._refused(name, known, stale)
            for flow in known.flows:
                if flow.running:
                    self._end(flow, "replaced")
                self._drop_all(flow)
                flow.forget()
            known.life, known.inbox = life, inbox
        else:
            size = max(SIZES)
            arenas = [self.outbox[at * size :][:size] for at in range(index * LANES, (index + 1) * LANES)]
            flows = [Flow(index, lane, arena, f"{self.seed} {index} {lane}") for lane, arena in enumerate(arenas)]
            self.peers[index] = Peer(name, life, inbox, flows)
        self.tell("loaded", index, life)

    def _refused(self, name: str, peer: Peer, stale: list) -> None:
        """Handles of a peer's former life do nothing."""
        running = {id(flow.running["handle"]) for flow in peer.flows if flow.running}
        for handle in stale:
            if id(handle) in running:
                continue
            try:
                state = self.agent.transfer(handle)
            except Exception as error:
                if type(error).__name__ != "nixlNotFoundError":
                    self.tell("bad", f"a request of the former life of {name} was answered by {error}")
            else:
                self.tell("bad", f"a request of the former life of {name} was accepted: {state}")

    def hold(self, index: int) -> None:
        """Nothing new for this peer until `go`; `held` when nothing is under way."""
        self.peers[index].held = True
        self.holding.add(index)

    def go(self, index: int) -> None:
        self.peers[index].held = False
        self.holding.discard(index)

    def checked(self, index: int, lane: int, slot: int) -> None:
        """The target has looked at a slot."""
        if index in self.peers:
            flow = self.peers[index].flows[lane]
            if flow.free_at[slot] == UNSEEN:
                flow.free_at[slot] = 0.0

    def look(self, sender: int, lane: int, slot: int, packed: int) -> None:
        """What a slot holds, whose writer was told that the write is done."""
        self.tell("looked", sender, lane, slot, packed, found(self._slot(sender, slot)))

    def audit(self) -> None:
        """What every slot holds, and whether the bytes between them are untouched."""
        slots = [[sender, slot, found(self._slot(sender, slot))] for sender, slot in self.layout.offsets]
        torn = [at for at in self.layout.guards if (self.inbox[at : at + 64] != GUARD_BYTE).any()]
        self.tell("audited", slots, torn)

    def deregister(self) -> None:
        self.agent.deregister_memory(self.agent.get_reg_descs([self._region(self.inbox)], "DRAM"))
        self.inbox_wanted = self.inbox.copy()
        self.tell("deregistered")

    def register(self) -> None:
        if self.inbox_wanted is not None and not np.array_equal(self.inbox, self.inbox_wanted):
            first = int(np.flatnonzero(self.inbox != self.inbox_wanted)[0])
            self.tell("bad", f"byte {first} of the inbox was written to after it was deregistered")
        self.inbox_wanted = None
        self.agent.register_memory([self._region(self.inbox)], "DRAM")
        self.tell("registered", self._metadata(), self.inbox.ctypes.data)

    def drain(self) -> None:
        """Ends what is under way and begins nothing; `drained` when that is done."""
        self.flowing = False

    def leave(self) -> None:
        """Ends the agent, with whatever is under way, then the process."""
        begin = time.monotonic()
        for peer in self.peers.values():
            for flow in peer.flows:
                flow.forget()
                flow.leaving.clear()
        self.peers.clear()
        self.agent = None
        gc.collect()
        self.tell("left", time.monotonic() - begin)
        self.ending = True

    # ---- Transfers ----

    def _start(self, peer: Peer, flow: Flow, now: float) -> None:
        kind = flow.dice.choices(list(SHARES), SHARES.values())[0]
        if kind == "read" and not self.has_deadlines:
            # NIXL's processes do not read: UCX 1.22 ends the process that answers a get of one that died meanwhile.
            kind = "write"
        slot = flow.dice.choice(flow.slots)
        if kind in ("write", "silent") and flow.free_at[slot] > now:
            slot = next((other for other in flow.slots if flow.free_at[other] <= now), None)
            if slot is None:
                # The peer has not looked yet.
                return
        run = {"kind": kind, "slot": slot, "life": peer.life, "number": None, "packed": None, "handle": None,
               "bytes": 0 if kind == "notify" else SIZES[slot], "begin": now, "deadline": None}  # fmt: skip
        flow.running = run
        message = b""
        version = 0
        if kind in ("write", "silent"):
            flow.versions[slot] += 1
            version = flow.versions[slot]
            stamp = Stamp(self.index, flow.peer, self.life, slot, version)
            run["packed"] = stamp.pack()
            flow.arena[: SIZES[slot]] = scattered(content(stamp, SIZES[slot]))
        elif kind == "read":
            run["packed"] = Stamp(flow.peer, flow.peer, peer.life, slot, 1).pack()
            flow.arena[: SIZES[slot]] = LANDING_BYTE
        if kind in ("write", "notify"):
            flow.number += 1
            run["number"] = flow.number
            length = flow.dice.choice((0, 1, 200, 5000, self.longest_message))
            length = min(length, self.longest_message)
            message = HEADER.pack(kind[:1].encode(), flow.lane, flow.number, slot, version, self.life, length)
            message += padding(flow.number, length)
        self.tell("posted", flow.peer, peer.life, flow.lane, kind, slot, run["packed"], run["number"])
        if kind == "silent" and self._breaks("early-done"):
            self._end(flow, "DONE")
            return
        try:
            if kind == "notify":
                self.agent.send_notif(peer.name, message)
                state = "DONE"
            else:
                run["handle"] = self._handle(peer, flow, kind, slot, message)
                state = self._post(flow, run, message)
        except Exception as error:
            self._end(flow, type(error).__name__, str(error))
            return
        if state != "PROC":
            self._end(flow, state)

    def _handle(self, peer: Peer, flow: Flow, kind: str, slot: int, message: bytes):
        """A request for this slot: the one of the last time, or a new one."""
        key = (kind, slot)
        if key in flow.handles and flow.dice.random() < 0.7:
            return flow.handles[key]
        if key in flow.handles:
            self._drop(flow, flow.handles.pop(key))
        size = SIZES[slot] // 16
        base = flow.arena.ctypes.data
        here = [(base + index * size, size, 0) for index in reversed(range(16))]
        sender = flow.peer if kind == "read" else self.index
        there = Layout.blocks(peer.inbox + self.layout.offsets[sender, slot], slot)
        lists = (self.agent.get_xfer_descs(here, "DRAM"), self.agent.get_xfer_descs(there, "DRAM"))
        operation = "READ" if kind == "read" else "WRITE"
        flow.handles[key] = self.agent.initialize_xfer(operation, *lists, peer.name, message)
        return flow.handles[key]

    def _post(self, flow: Flow, run: dict, message: bytes) -> str:
        if not self.has_deadlines:
            return self.agent.transfer(run["handle"], message)
        run["deadline"] = flow.dice.choice(DEADLINES_S)
        return self.agent.transfer(run["handle"], message, timeout=run["deadline"])

    def _poll(self, flow: Flow, now: float) -> None:
        run = flow.running
        try:
            state = self.agent.check_xfer_state(run["handle"])
        except Exception as error:
            self._end(flow, type(error).__name__, str(error))
            return
        if state != "PROC":
            self._end(flow, state)
        elif now - run["begin"] > HANG_S + 2 * (run["deadline"] or 0) and "hangs" not in run:
            run["hangs"] = True
            self.tell("hangs", flow.peer, run["life"], run["kind"], now - run["begin"])

    def _end(self, flow: Flow, status: str, text: str = "") -> None:
        run, flow.running = flow.running, None
        now = time.monotonic()
        kind, slot = run["kind"], run["slot"]
        wrong = []
        if status == "DONE" and kind == "read":
            data = flow.arena[: SIZES[slot]].reshape(16, -1)[::-1].reshape(-1)
            wrong = [entry for entry in found(data) if entry[0] != run["packed"]]
        if status != "DONE":
            flow.idle_until = now + BACK_OFF_S
            # A request that failed can be posted again; half of the time a new one is made.
            if (kind, slot) in flow.handles and flow.dice.random() < 0.5:
                self._drop(flow, flow.handles.pop((kind, slot)))
        if "last" in run:
            self._drop(flow, run["handle"])
        if status not in ("DONE", "replaced") and not self.ours:
            self._reconnect(self.peers[flow.peer])
        if kind in ("write", "silent"):
            flow.free_at[slot] = UNSEEN if status == "DONE" else now + QUARANTINE_S
        self.tell("ended", flow.peer, run["life"], flow.lane, kind, slot, run["packed"], run["number"], status,
                  now - run["begin"], run["bytes"], run["deadline"], wrong, text)  # fmt: skip

    def _reconnect(self, peer: Peer) -> None:
        """NIXL opens a connection that broke only when its peer is forgotten and loaded again."""
        if any(flow.running for flow in peer.flows):
            return
        for flow in peer.flows:
            self._drop_all(flow)
        self.agent.remove_remote_agent(peer.name)
        # It connects, so it fails while the peer is gone.
        with contextlib.suppress(Exception):
            self.agent.add_remote_agent(base64.b64decode(self.metadata[peer.flows[0].peer]))

    def _drop(self, flow: Flow, handle) -> None:
        flow.leaving.append((handle, time.monotonic()))
        self._leave(flow)

    def _drop_all(self, flow: Flow) -> None:
        """The one that is busy goes when it ends."""
        busy = flow.running["handle"] if flow.running else None
        handles, flow.handles = flow.handles, {}
        for handle in handles.values():
            if handle is busy:
                flow.running["last"] = True
            else:
                self._drop(flow, handle)

    def _leave(self, flow: Flow) -> None:
        """Releases; one that is refused is tried again, and until then the flow's memory stays as it is."""
        left = []
        for handle, since in flow.leaving:
            try:
                self.agent.release_xfer_handle(handle)
            except Exception as error:
                if time.monotonic() - since < HANG_S:
                    left.append((handle, since))
                else:
                    self.tell("bad", f"a request to {flow.peer} cannot be released: {error}")
        flow.leaving = left

    # ---- Notifications ----

    def _take(self) -> None:
        for name, messages in self.agent.get_new_notifs().items():
            sender = int(name.rpartition("-")[2])
            for message in messages:
                self._got(sender, bytes(message))

    def _got(self, sender: int, message: bytes) -> None:
        if len(message) < HEADER.size:
            self.tell("bad", f"a message of {len(message)} bytes of {sender}, shorter than any that is sent")
            return
        kind, lane, number, slot, version, life, length = HEADER.unpack_from(message)
        if message[HEADER.size :] != padding(number, length):
            self.tell("bad", f"message {number} of {sender}.{life} in lane {lane} has other bytes than were sent")
        if self._breaks("drop-notification"):
            return
        stamps: list = []
        packed = None
        if kind == b"w":
            packed = Stamp(sender, self.index, life, slot, version).pack()
            if self._breaks("flip-byte"):
                self._slot(sender, slot)[SIZES[slot] // 2] ^= 1
            stamps = found(self._slot(sender, slot))
        self.tell("got", sender, life, lane, number, slot, packed, stamps)

    # ---- Peers ----

    def _hear(self) -> None:
        """What the library says of peers, of the lives that are known now. NIXL's says nothing."""
        for event in self.agent.peer_events() if self.ours else []:
            index = int(event.peer.rpartition("-")[2])
            if event.kind == "lost" and index in self.peers:
                self.tell("lost", index, self.peers[index].life, event.why)
            elif event.kind == "undelivered" and len(event.message) >= HEADER.size:
                _, lane, number, *_ = HEADER.unpack_from(event.message)
                self.tell("undelivered", index, lane, number)

    # ---- Turns ----

    def turn(self, now: float) -> bool:
        """One round over everything; whether something is under way."""
        self._take()
        self._hear()
        busy = False
        for peer in list(self.peers.values()):
            for flow in peer.flows:
                if flow.leaving:
                    self._leave(flow)
                if flow.running:
                    self._poll(flow, now)
                elif self.flowing and not peer.held and not flow.leaving and now >= flow.idle_until:
                    self._start(peer, flow, now)
                busy = busy or flow.running is not None or bool(flow.leaving)
        for index in [index for index in self.holding if not self._active(index)]:
            self.holding.discard(index)
            self.tell("held", index)
        self._usage(now)
        return busy

    def _active(self, index: int) -> bool:
        """What ended with an error may still be on its way."""
        now = time.monotonic()
        return any(
            flow.running or flow.leaving or any(now < at < UNSEEN for at in flow.free_at.values())
            for flow in self.peers[index].flows
        )


def serve(worker: Worker, commands, results) -> None:
    rest = b""
    drained = False
    while True:
        if select.select([commands], [], [], TURN_S)[0]:
            read = os.read(commands, 1 << 20)
            if not read:
                return
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                for name, *arguments in json.loads(line):
                    try:
                        getattr(worker, name)(*arguments)
                    except Exception as error:
                        worker.tell("failed", name, arguments[:1], type(error).__name__, str(error))
        busy = not worker.ending and worker.turn(time.monotonic())
        if not worker.flowing and not busy and not drained:
            drained = True
            worker.tell("drained")
        if worker.events:
            results.write(json.dumps(worker.events).encode() + b"\n")
            results.flush()
            worker.events.clear()
        if worker.ending:
            return


def main() -> None:
    # The program that started it may be killed; what is stopped would not see the end of its input.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    # Standard output is for events; what libraries print there goes to the standard error.
    with os.fdopen(os.dup(1), "wb") as own_output:
        os.dup2(2, 1)
        worker = Worker(**json.loads(sys.argv[1]))
        serve(worker, 0, own_output)
        if worker.ours and worker.ending:
            # What is left of the agent ends with the interpreter, silently.
            faulthandler.cancel_dump_traceback_later()
            return
        os._exit(0)


if __name__ == "__main__":
    main()
