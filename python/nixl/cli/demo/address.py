"""Addresses that a user writes, and TCP connections to and from them."""

from __future__ import annotations

import argparse
import errno
import socket
from dataclasses import dataclass

from .errors import Failed, Refused

CONNECT_S = 10.0
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def of_peer(text: str) -> Address:
    """HOST:PORT of an option of the command line."""
    host, colon, port = text.rpartition(":")
    if not colon or not host:
        raise argparse.ArgumentTypeError(f"'{text}' is not HOST:PORT")
    return Address(_host(host, text), _port(port, text, 1))


def to_listen_on(text: str) -> Address:
    """[ADDRESS:]PORT of an option of the command line. Without an address only this host can connect."""
    host, colon, port = text.rpartition(":")
    if colon and not host:
        raise argparse.ArgumentTypeError(f"'{text}' has no address before the colon; 0.0.0.0 stands for all of them")
    return Address(_host(host, text) if host else LOOPBACK, _port(port, text, 0))


def _host(host: str, text: str) -> str:
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise argparse.ArgumentTypeError(f"'{text}': an IPv6 address stands in brackets, as in [::1]:5005")
    if not host or not host.isprintable() or " " in host:
        raise argparse.ArgumentTypeError(f"'{text}' names no host")
    return host


def _port(port: str, text: str, least: int) -> int:
    if not (port.isascii() and port.isdigit() and least <= int(port[:6]) <= 65535):
        raise argparse.ArgumentTypeError(f"'{text}' does not end in a port from {least} to 65535")
    return int(port)


def listen(address: Address) -> socket.socket:
    """Raises Refused, which names the address."""
    try:
        family, _, _, _, where = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(where, family=family)
    except (OSError, UnicodeError) as error:
        raise Refused(f"cannot listen on {address}: {_reason(error)}") from None


def connect(address: Address) -> socket.socket:
    """Tries all addresses of a name. Raises Failed, which names the address."""
    try:
        connection = socket.create_connection((address.host, address.port), CONNECT_S)
    except (OSError, UnicodeError) as error:
        if getattr(error, "errno", None) == errno.ECONNREFUSED:
            raise Failed(f"nobody listens at {address}; `nixl demo --listen` has to run there first") from None
        raise Failed(f"cannot connect to {address}: {_reason(error)}") from None
    prepare(connection)
    return connection


def prepare(connection: socket.socket) -> None:
    """Orders are small and waited for; and a host that vanishes is to be noticed."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def of_socket(name: tuple) -> Address:
    """What getsockname() or accept() tells."""
    return Address(name[0], name[1])


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_S:g} s" if error.errno is None else error.strerror
    return getattr(error, "strerror", None) or str(error)
