#!/usr/bin/env python3
"""Two processes that move scattered blocks through the NIXL Python interface of any implementation.

    kv_bench.py nixl                    ours, or another module with NIXL's interface: nixl_cu13
    kv_bench.py nixl --call scattered block=4096 count=8192 repetitions=5

Prints one JSON object: seconds of every repetition. Without --call everything is measured that kv/session.py offers.
UCX_TLS=tcp NIXL_LOCAL=off measures TCP. `./dev bench` runs ours, NIXL and the machine's limit in turns instead.
"""

import argparse
import json
import os
import sys
import traceback

from kv import side, target
from kv.session import Session

EVERYTHING = [
    *(("scattered", {"block": block, "count": 8192, "repetitions": 5}) for block in (512, 4096, 16384, 65536)),
    *(
        ("single", {"operation": operation, "size": size, "repetitions": 200 if size <= 65536 else 5})
        for operation in ("WRITE", "READ")
        for size in (8, 4096, 65536, 1 << 20, 64 << 20)
    ),
    ("calls", {"block": 4096, "count": 8192, "repetitions": 5}),
    ("notifications", {"seconds": 2, "messages": 10000}),
    ("regions", {"count": 4096, "repetitions": 3}),
]


def value(text):
    name, _, given = text.partition("=")
    return name, int(given) if given.isdecimal() else given


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module")
    parser.add_argument("--backend", default="UCX")
    parser.add_argument("--mib", type=int, default=512, help="memory of each side")
    parser.add_argument("--kind", choices=("private", "alloc"), default="private", help="kind of that memory")
    parser.add_argument("--call", nargs="+", metavar=("NAME", "NAME=VALUE"), help="one measurement alone")
    parser.add_argument("--serve", action="store_true", help="take calls as lines of JSON, for the driver")
    parser.add_argument(
        "--target-via", metavar="COMMAND", default="", help="what runs the other process, say: ip netns exec NAME"
    )
    parser.add_argument("--target", type=int, metavar="DESCRIPTOR", help="be the other process, for the program itself")
    return parser.parse_args()


def serve(session, options, answers):
    """A line of JSON with "result" or "error" for every line with "call" and "arguments"."""
    about = session.about() | {"kinds": side.kinds(options.module)}
    print(json.dumps({"result": about}), file=answers, flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = {"result": getattr(session, command["call"])(**command["arguments"])}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def main():
    options = arguments()
    if options.target is not None:
        target.serve(options.module, options.backend, options.mib << 20, options.kind, options.target)
    else:
        measure(options)
    # NIXL's wheel crashes where the interpreter ends normally on Debian 12.
    sys.stderr.flush()
    os._exit(0)


def measure(options):
    answers = sys.stdout
    if options.serve:
        # What the libraries print goes to standard error; standard output is for answers.
        answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
    via = options.target_via.split()
    session = Session(options.module, options.backend, options.mib << 20, options.kind, via)
    if options.serve:
        serve(session, options, answers)
    else:
        calls = [(name, given) for name, given in EVERYTHING if given.get("size", 0) <= options.mib << 20]
        if options.call:
            calls = [(options.call[0], dict(value(text) for text in options.call[1:]))]
        results = {"about": session.about()}
        for name, given in calls:
            label = " ".join([name, *(f"{key}={given[key]}" for key in given)])
            results[label] = getattr(session, name)(**given)
        print(json.dumps(results, indent=1), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("NIXL_LOG_LEVEL", "ERROR")
    main()
