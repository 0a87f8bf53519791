"""The documentation is true: its programs run as pasted, and what it names exists.

Programs are the blocks ```python and ```cpp of README.md, and everywhere those whose first line says `run`:
```python run, ```cpp run, ```sh run. The blocks of a page run in its order, in one folder that looks like the root of
the tree; a block python or cpp lies there as program.py or program.cpp for the sh block behind it.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import nixl
import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD_DIR_UNDER_TEST", ROOT / "build"))
PACKAGE_ROOT = Path(nixl.__file__).absolute().parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("engines/*/*.md"), *ROOT.glob("examples/*/*.md")]
)
BLOCK = re.compile(r"^```(\w+)( run)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LIMIT_S = 120


def page_id(page):
    return str(page.relative_to(ROOT))


def programs(page):
    """(language, text, whether it is run) of each block."""
    always = ("python", "cpp") if page.name == "README.md" and page.parent == ROOT else ()
    return [
        (language, text, bool(marked) or language in always)
        for language, marked, text in BLOCK.findall(page.read_text(encoding="utf-8"))
    ]


def run(command, folder, **options):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NIXL_")}
    environment.update(PYTHONPATH=str(PACKAGE_ROOT), NIXL_LOG_LEVEL="WARN")
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S, **options
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def compile_and_run(source, folder):
    compiler = os.environ.get("CXX", "g++")
    binary = folder / "compiled"
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
    libraries = [f"-L{BUILD / 'lib'}", "-lnixl", f"-Wl,-rpath,{BUILD / 'lib'}"]
    run([compiler, *flags, str(source), "-o", str(binary), *libraries], folder)
    return run([str(binary)], folder)


def run_block(language, text, folder):
    if language == "python":
        (folder / "program.py").write_text(text)
        return run([sys.executable, "program.py"], folder)
    if language == "cpp":
        (folder / "program.cpp").write_text(text)
        return compile_and_run(folder / "program.cpp", folder)
    assert language == "sh", f"no way to run a block of {language}"
    return run(["bash", "-euc", text], folder)


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "include").symlink_to(ROOT / "include")
    (tmp_path / "build").symlink_to(BUILD)
    return tmp_path


@pytest.mark.parametrize("page", [page for page in PAGES if any(run for _, _, run in programs(page))], ids=page_id)
def test_programs_of_the_page_run(page, tree):
    for language, text, is_run in programs(page):
        if is_run:
            run_block(language, text, tree)


def test_programs_of_readme_do_what_they_show(tree):
    python, cpp, shell = [
        run_block(language, text, tree) for language, text, is_run in programs(ROOT / "README.md") if is_run
    ]
    assert python.splitlines()[0] == "b'some KV cache'"
    assert "b'blocks are there'" in python and "LOCAL" in python
    assert cpp == shell == "NIXL_SUCCESS: some KV cache\n"


def test_programs_of_readme_have_ten_lines():
    """Beside imports, includes, the head of main() and braces."""
    for language, text, _ in programs(ROOT / "README.md"):
        if language in ("python", "cpp"):
            lines = [line.strip() for line in text.splitlines()]
            aside = re.compile(r"|[{}]+|#include .*|(import|from) .*|int main\(\) {")
            assert len([line for line in lines if not aside.fullmatch(line)]) == 10, language


def test_readme_shows_first_what_to_do():
    screen = (ROOT / "README.md").read_text().splitlines()[:60]
    text = "\n".join(screen)
    places = [text.index(words) for words in ("./dev run", "./dev test", "```python", "```cpp")]
    assert places == sorted(places)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path) if path else page
        assert linked.exists(), f"{page.name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_named_files_exist(page):
    """What looks like a path of the tree, in backticks and below one of its folders, is there."""
    folders = "src|engines|include|python|tests|examples|docs|cmake|tools|packaging"
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for path in re.findall(rf"`((?:{folders})/[\w./-]*)`", text):
        stands_for_any = "NAME" in path
        assert stands_for_any or (ROOT / path).exists(), f"{page.name} names {path}"


def test_python_example(tmp_path):
    output = run([sys.executable, str(ROOT / "examples/python/two_processes.py")], tmp_path)
    assert output.startswith("86 blocks: DONE\n") and output.endswith("verified\n")


def test_cpp_example(tmp_path):
    output = compile_and_run(ROOT / "examples/cpp/two_agents.cpp", tmp_path)
    assert output.startswith("notification from prefill: blocks are there\n") and output.endswith("verified\n")


def test_name_that_clients_require_leads_to_this_version(tmp_path):
    """`packaging/nixl` makes an empty distribution `nixl` of the version of the library."""
    version = re.search(r"project\(nixl VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(tmp_path)]
    run([*pip, str(ROOT / "packaging/nixl")], tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    listing = run([sys.executable, "-m", "zipfile", "-l", str(wheel)], tmp_path)
    assert wheel.name == f"nixl-{version}-py3-none-any.whl"
    assert all("dist-info/" in line for line in listing.splitlines()[1:])
    run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(tmp_path)], tmp_path)
    (metadata,) = tmp_path.glob("*.dist-info/METADATA")
    assert f"Requires-Dist: nixl-open=={version}" in metadata.read_text()
