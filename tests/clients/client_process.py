"""The other side of the tests of this folder: a process that plays one role of a client."""

import importlib.util
import os
import traceback

from agents import WAIT_SECONDS


class Channel:
    """What clients have beside NIXL to talk with each other, such as a ZMQ socket. Waits are bounded."""

    def __init__(self, connection):
        self._connection = connection

    def send(self, value):
        self._connection.send(value)

    def receive(self):
        assert self._connection.poll(WAIT_SECONDS), "the other role says nothing"
        return self._connection.recv()


def play(path, role, connection, report):
    """Runs the function `role` of the file `path`; sends None when it is done, or what went wrong."""
    spec = importlib.util.spec_from_file_location("client", path)
    client = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(client)
        getattr(client, role)(Channel(connection))
        report.send(None)
    except BaseException:
        report.send(traceback.format_exc())
    finally:
        connection.close()
        report.close()
    # Programs end with agents alive; how they end is judged where the engine is tested.
    os._exit(0)
