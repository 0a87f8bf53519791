#!/usr/bin/env python3
"""Checks the layer rules of CONTRIBUTING.md: who may include whom, and what belongs in one place only.

Usage: check_layers.py [ROOT]. Prints one line per violation, `file:line: what is wrong`; exit code 1 if there is any.
"""

import re
import sys
from pathlib import Path

# A folder of src/ sees lower numbers and itself, never another folder of its own number.
LAYERS = {
    "util": 0,
    "wire": 1,
    "memory": 2,
    "engine": 2,
    "telemetry": 3,
    "metadata": 3,
    "agent": 4,
    "ranks": 5,
}
ENGINES_SEE = {"util", "wire", "memory", "engine"}
# Python hands serialized lists to the readers of wire/; examples are programs of users.
USERS_SEE = {"python/bindings": {"util", "wire"}, "examples": set()}
# The one file that knows every engine that is linked in.
COMPOSITION = "engines/builtin.cc"
ENVIRONMENT_READER = "src/util/options.cc"
THREAD_LIST = "docs/threading.md"

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
GETENV = re.compile(r"\b(?:secure_)?getenv\s*\(|\benviron\b")
# util/worker.h is how the library starts its threads.
THREAD = re.compile(
    r'#include "util/worker\.h"|\bstd::j?thread\b(?!\s*::)|\bpthread_create\b|\bstd::async\b|\bthrd_create\b'
)
BACKEND_NAME = re.compile(r'"(?:UCX|GDS|LIBFABRIC)')
LAYER_CALL = re.compile(r"nixl_layer\(\s*(\w+)([^)]*)\)", re.DOTALL)

STANDARD_HEADERS = set(
    """
    algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes
    climits clocale cmath compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstddef
    cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype deque exception execution filesystem format
    forward_list fstream functional future initializer_list iomanip ios iosfwd iostream istream iterator latch
    limits list locale map memory memory_resource mutex new numbers numeric optional ostream queue random ranges
    ratio regex scoped_allocator semaphore set shared_mutex source_location span sstream stack stdexcept stop_token
    streambuf string string_view syncstream system_error thread tuple type_traits typeindex typeinfo unordered_map
    unordered_set utility valarray variant vector version
    """.split()
) | {"sys/types.h"}  # ssize_t, which the NIXL interface uses


def sources(root, top):
    folder = root / top
    if folder.is_dir():
        for path in sorted(folder.rglob("*")):
            if path.suffix in {".h", ".cc", ".cpp", ".cu", ".cuh"}:
                yield path


def code_lines(path):
    """Lines with comments blanked; line numbers stay."""
    text = path.read_text(encoding="utf-8")
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)

    def blank(match):
        found = match.group(0)
        return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)

    return pattern.sub(blank, text).split("\n")


class Checker:
    def __init__(self, root):
        self.root = root
        self.problems = []
        self.public = {path.relative_to(root / "include").as_posix() for path in sources(root, "include")}

    def report(self, path, line, text):
        self.problems.append(f"{path.relative_to(self.root).as_posix()}:{line}: {text}")

    def run(self):
        self.check_public_headers()
        for path in sources(self.root, "src"):
            self.check_core(path)
        for path in sources(self.root, "engines"):
            self.check_engine(path)
        for path in sources(self.root, "tests/unit"):
            self.check_unit_test(path)
        for top, layers in USERS_SEE.items():
            for path in sources(self.root, top):
                self.check_user_code(path, layers)
        self.check_link_lines()
        self.check_threads()
        return self.problems

    def includes(self, path):
        for number, line in enumerate(code_lines(path), 1):
            match = INCLUDE.match(line)
            if match:
                yield number, match.group(1), match.group(2)

    def project_parts(self, path, name):
        """Where an included name lies: ('include',), ('src', layer), ('engines', name), ('other', top) or None."""
        if name in self.public:
            return ("include",)
        first, _, rest = name.partition("/")
        if rest and first in LAYERS and (self.root / "src" / name).exists():
            return ("src", first)
        if first == "engines" and rest:
            return ("engines", rest.partition("/")[0])
        if first in {"src", "python", "tests", "support", "tools", "include"} and rest:
            return ("other", first)
        beside = (path.parent / name).resolve()
        if beside.exists() and beside.is_relative_to(self.root):
            top = beside.relative_to(self.root).parts
            if top[0] in {"src", "engines"} and len(top) > 2:
                return (top[0], top[1])
            return ("other", top[0])
        return None

    def check_public_headers(self):
        for path in sources(self.root, "include"):
            for number, bracket, name in self.includes(path):
                beside = (path.parent / name).resolve()
                own = name in self.public or beside.is_relative_to(self.root / "include") and beside.exists()
                if bracket == '"' and not own:
                    self.report(path, number, f'includes "{name}": public headers see only include/')
                if bracket == "<" and not own and name not in STANDARD_HEADERS:
                    self.report(path, number, f"includes <{name}>: public headers need only the C++ standard library")

    def check_core(self, path):
        layer = path.relative_to(self.root / "src").parts[0]
        if layer not in LAYERS:
            self.report(path, 1, f"src/{layer} is no layer; known are {', '.join(LAYERS)}")
            return
        for number, _, name in self.includes(path):
            parts = self.project_parts(path, name)
            if parts is None or parts[0] == "include":
                continue
            if parts[0] != "src":
                self.report(path, number, f'includes "{name}": the core sees only include/ and src/')
            elif parts[1] != layer and LAYERS[parts[1]] >= LAYERS[layer]:
                self.report(
                    path,
                    number,
                    f'includes "{name}": {layer} (layer {LAYERS[layer]}) may not see '
                    f"{parts[1]} (layer {LAYERS[parts[1]]})",
                )
        for number, line in enumerate(code_lines(path), 1):
            if BACKEND_NAME.search(line):
                self.report(path, number, "names a backend: what the core needs to know comes from its description")
        self.check_environment(path)

    def check_engine(self, path):
        self.check_environment(path)
        relative = path.relative_to(self.root)
        if relative.as_posix() == COMPOSITION:
            return
        own = relative.parts[1]
        for number, _, name in self.includes(path):
            parts = self.project_parts(path, name)
            if parts is None or parts[0] == "include":
                continue
            if parts[0] == "engines" and parts[1] not in {own, "common"}:
                self.report(path, number, f'includes "{name}": an engine never includes another engine')
            elif parts[0] == "src" and parts[1] not in ENGINES_SEE:
                self.report(path, number, f'includes "{name}": engines see only {", ".join(sorted(ENGINES_SEE))}')
            elif parts[0] == "other":
                self.report(path, number, f'includes "{name}": engines see only include/, src/ and engines/common')

    def check_unit_test(self, path):
        layer = path.relative_to(self.root / "tests/unit").parts[0]
        if layer not in LAYERS:
            self.report(path, 1, f"tests/unit/{layer} mirrors no layer of src/")
            return
        for number, _, name in self.includes(path):
            parts = self.project_parts(path, name)
            if parts is None or parts[0] == "include":
                continue
            if parts[0] == "engines":
                self.report(path, number, f'includes "{name}": unit tests use fakes; engines have tests/engines')
            elif parts[0] == "src" and LAYERS[parts[1]] > LAYERS[layer]:
                self.report(path, number, f'includes "{name}": a test of {layer} may not see {parts[1]}')

    def check_user_code(self, path, layers):
        for number, _, name in self.includes(path):
            parts = self.project_parts(path, name)
            if parts is not None and parts[0] in {"src", "engines"} and parts[1] not in layers:
                seen = ", ".join(["include/", *(f"src/{layer}" for layer in sorted(layers))])
                self.report(path, number, f'includes "{name}": this folder sees only {seen}')

    def check_environment(self, path):
        if path.relative_to(self.root).as_posix() == ENVIRONMENT_READER:
            return
        for number, line in enumerate(code_lines(path), 1):
            if GETENV.search(line):
                self.report(path, number, f"reads the environment; that is done in {ENVIRONMENT_READER} alone")

    def check_link_lines(self):
        for path in sorted((self.root / "src").glob("*/CMakeLists.txt")):
            for match in LAYER_CALL.finditer(path.read_text(encoding="utf-8")):
                name, arguments = match.groups()
                depends = re.search(r"\bDEPENDS\b((?:\s+[a-z_]\w*)*)", arguments)
                for other in depends.group(1).split() if depends else []:
                    if name not in LAYERS or other not in LAYERS or LAYERS[other] >= LAYERS[name]:
                        self.report(path, 1, f"nixl_layer({name}) may not depend on {other}")

    def check_threads(self):
        listed = self.root / THREAD_LIST
        text = listed.read_text(encoding="utf-8") if listed.exists() else ""
        for top in ("src", "engines"):
            for path in sources(self.root, top):
                relative = path.relative_to(self.root)
                if relative.as_posix() in text or relative.with_suffix("").as_posix() + "." in text:
                    continue
                for number, line in enumerate(code_lines(path), 1):
                    if THREAD.search(line):
                        self.report(path, number, f"starts a thread, but {THREAD_LIST} does not list this file")
                        break


def main(arguments):
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent).resolve()
    problems = Checker(root).run()
    for problem in problems:
        print(problem)
    if not problems:
        print("layers: no violations")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
