#!/usr/bin/env python3
"""Checks that every header compiles alone, as the first and only include of a program.

Usage: check_headers.py [--root ROOT] [--compiler CXX] [--internal] [--jobs N] [HEADER...]

Without --internal the headers in include/ are compiled with nothing but include/ on the path, as an installed copy is
used. With --internal those of src/ and engines/ are compiled as well; they find the headers of the Python package
libucx. One line per header that fails, then what the compiler said; exit code 1 if there is any.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-x", "c++", "-"]


def headers_of(root, internal):
    for top in ["include", "src", "engines"] if internal else ["include"]:
        yield from sorted((root / top).rglob("*.h"))


def ucx_headers():
    """Where engines/ucx finds the headers of UCX."""
    spec = importlib.util.find_spec("libucx")
    return [f"-isystem{folder}/include" for folder in (spec and spec.submodule_search_locations) or ()]


def compile_alone(root, compiler, header):
    """None, or what the compiler said."""
    public = header.is_relative_to(root / "include")
    folders = [root / "include"] if public else [root / "include", root / "src", root]
    # Twice: a header that lacks its guard fails.
    program = f'#include "{header}"\n#include "{header}"\nint main() {{}}\n'
    system = [] if public else ucx_headers()
    command = [compiler, *(f"-I{folder}" for folder in folders), *system, *FLAGS]
    done = subprocess.run(command, input=program, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).parent.parent)
    parser.add_argument("--compiler", default=os.environ.get("CXX", "g++"))
    parser.add_argument("--internal", action="store_true", help="headers of src/ and engines/ as well")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("headers", nargs="*", type=Path, help="these only")
    arguments = parser.parse_args()
    root = arguments.root.resolve()

    headers = [path.resolve() for path in arguments.headers] or list(headers_of(root, arguments.internal))
    if not headers:
        print(f"headers: none found under {root}")
        return 1
    with ThreadPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(lambda header: compile_alone(root, arguments.compiler, header), headers))
    failed = 0
    for header, complaint in zip(headers, results):
        if complaint is not None:
            failed += 1
            print(f"{header.relative_to(root)}: does not compile alone\n{complaint}")
    if not failed:
        print(f"headers: {len(headers)} compile alone")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
