"""Messages between the demo's processes: over a pair of sockets inside a host, over TCP between hosts.

A message is a kind and a value. Its frame is a length of 4 bytes, big-endian, and so many bytes of JSON: [kind, value].
Bytes travel as {"base64": TEXT}. Nothing that arrives is executed, and no frame is longer than FRAME_LIMIT.
"""

from __future__ import annotations

import base64
import json
import socket
import time
from typing import Any

FRAME_LIMIT = 4 << 20
LENGTH_BYTES = 4


class Garbled(Exception):
    """What arrived is no message."""


class Link:
    """One end of a connection, which it owns. Not for several threads.

    `timeout_s` bounds how long a message may take to be sent, or to arrive once waited for; None: for ever.
    """

    def __init__(self, connection: socket.socket, timeout_s: float | None = None) -> None:
        self._socket = connection
        self._timeout_s = timeout_s
        connection.settimeout(timeout_s)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, kind: str, value: Any = None) -> None:
        """Raises OSError; TimeoutError, which is one, if the other end takes nothing."""
        self._socket.settimeout(self._timeout_s)
        self._socket.sendall(encode(kind, value))

    def receive(self) -> tuple[str, Any]:
        """Waits for a message. Raises EOFError if the other end closed, Garbled, and OSError as send() does."""
        end = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        length = int.from_bytes(self._take(LENGTH_BYTES, end), "big")
        if length > FRAME_LIMIT:
            raise Garbled(f"a frame of {length:,} bytes")
        return decode(self._take(length, end))

    def finish(self) -> None:
        """Nothing more is sent; the other end finds that out after what it has not read yet."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()

    def _take(self, count: int, end: float | None) -> bytearray:
        taken = bytearray()
        while len(taken) < count:
            if end is not None:
                self._socket.settimeout(max(end - time.monotonic(), 1e-3))
            # In pieces: memory is taken for what arrived, not for what a length promised.
            try:
                piece = self._socket.recv(min(count - len(taken), 1 << 16))
            except ConnectionResetError:
                piece = b""  # how an end looks that had not read everything
            if not piece:
                raise EOFError
            taken += piece
            if end is not None and time.monotonic() > end:
                raise TimeoutError("timed out")
        return taken


def encode(kind: str, value: Any) -> bytes:
    text = json.dumps([kind, value], default=_as_base64, allow_nan=False).encode("ascii")
    if len(text) > FRAME_LIMIT:
        raise ValueError(f"'{kind}' with {len(text):,} bytes is longer than a frame")
    return len(text).to_bytes(LENGTH_BYTES, "big") + text


def decode(text: bytes | bytearray) -> tuple[str, Any]:
    try:
        message = json.loads(text, object_hook=_from_base64, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Garbled(f"a frame that is not JSON: {error}") from None
    if not (isinstance(message, list) and len(message) == 2 and isinstance(message[0], str)):
        raise Garbled("a frame that is not [kind, value]")
    return message[0], message[1]


def _as_base64(value: Any) -> dict:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"{type(value).__name__} cannot be sent")
    return {"base64": base64.b64encode(value).decode("ascii")}


def _from_base64(value: dict) -> Any:
    if value.keys() != {"base64"}:
        return value
    text = value["base64"]
    if not isinstance(text, str):
        raise ValueError("base64 that is no text")
    return base64.b64decode(text, validate=True)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")
