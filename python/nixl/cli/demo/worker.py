"""What runs in each of the two processes: a loop that takes orders from the supervisor's link.

Started as a file. Arguments: the role, the descriptor of the link, the supervisor's process id, and who may reach this
process's memory.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    # Python put this file's folder in front of the search path; what belongs there is the folder of the package.
    from os.path import abspath, dirname

    sys.path[0] = dirname(dirname(dirname(dirname(abspath(__file__)))))

import ctypes
import os
import signal
import socket
import traceback

PR_SET_PDEATHSIG = 1
PR_SET_PTRACER = 0x59616D61
PR_SET_PTRACER_ANY = -1


def main(role: str, descriptor: int, supervisor: int, ptracers: str) -> None:
    end_with(supervisor)
    # Where Yama lets only parents reach a process's memory, the supervisor and its other child may reach this one, or
    # every process of the user where the peer has another parent. Elsewhere the call is refused, and is not needed.
    allowed = PR_SET_PTRACER_ANY if ptracers == "any" else supervisor
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(allowed))
    # The library tells about every agent at level INFO; here only what is wrong is of interest.
    os.environ.setdefault("NIXL_LOG_LEVEL", "WARN")
    serve(role, descriptor)


def end_with(supervisor: int) -> None:
    """Asks the system to kill this process when the supervisor ends, however that happens."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(1)  # it ended before we asked


def serve(role: str, descriptor: int) -> None:
    """Carries out orders (name, arguments) until "quit"; answers with "result", "refused" or "failed" and a value."""
    from nixl.cli.demo.decode import Decode
    from nixl.cli.demo.errors import Failed, Refused
    from nixl.cli.demo.link import Link
    from nixl.cli.demo.prefill import Prefill

    link = Link(socket.socket(fileno=descriptor))
    participant = {"prefill": Prefill, "decode": Decode}[role](lambda done: link.send("progress", done))
    while True:
        order, arguments = link.receive()
        if order == "quit":
            return
        try:
            answer = ("result", getattr(participant, order)(**arguments))
        except Refused as error:
            answer = ("refused", str(error))
        except MemoryError:
            answer = ("refused", f"too little memory: {role} got none for '{order}'")
        except Failed as error:
            answer = ("failed", str(error))
        except Exception as error:
            if os.environ.get("NIXL_LOG_LEVEL", "").upper() in ("DEBUG", "TRACE"):
                traceback.print_exc()
            answer = ("failed", f"{type(error).__name__}: {error}")
        link.send(*answer)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
