"""Runs roles of clients in processes of their own, over UCX."""

import multiprocessing
import sys
from multiprocessing.connection import wait
from pathlib import Path

import pytest

# Helpers are imported by name, also by the processes that are spawned.
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "python"))

from agents import WAIT_SECONDS
from client_process import play

# What users have on one host, where LOCAL comes with UCX; and the network alone, as between hosts.
ENVIRONMENTS = {
    "host": {"UCX_NET_DEVICES": "lo"},
    "network": {"UCX_NET_DEVICES": "lo", "UCX_TLS": "tcp", "NIXL_LOCAL": "off"},
}


@pytest.fixture(params=ENVIRONMENTS)
def roles(request, monkeypatch):
    """roles(first[, second]): plays functions of the test's file in processes of their own, to their end.

    Each is called with its end of a Channel. The role `dies`, if there is one, must die before it is done.
    """
    for name, value in ENVIRONMENTS[request.param].items():
        monkeypatch.setenv(name, value)
    context = multiprocessing.get_context("spawn")
    processes = []

    def run(*functions, dies=None):
        reports = {}
        for function, connection in zip(functions, context.Pipe()):
            report, theirs = context.Pipe(duplex=False)
            process = context.Process(
                target=play, args=(str(request.path), function.__name__, connection, theirs), daemon=True
            )
            process.start()
            processes.append(process)
            reports[report] = function.__name__
            connection.close()
            theirs.close()
        failures = []
        while reports:
            ready = wait(reports, 2 * WAIT_SECONDS)
            if not ready:
                failures.append(f"{', '.join(reports.values())}: not done in time")
                break
            for report in ready:
                role = reports.pop(report)
                died = dies is not None and role == dies.__name__
                try:
                    failure = report.recv() or ("it did not die" if died else None)
                except EOFError:
                    failure = None if died else "the process died"
                if failure is not None:
                    failures.append(f"{role}: {failure}")
        if failures:
            pytest.fail("\n".join(failures), pytrace=False)

    yield run
    for process in processes:
        process.kill()
        process.join()
