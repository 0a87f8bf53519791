"""Whether another distribution believes that it owns the package `nixl` in this folder."""

import os

from .logging import get_logger, lines_on_stderr

_OWN_DISTRIBUTION = "nixl_open"


def other_owner(packages: str) -> str | None:
    """The name of another distribution in the folder `packages` whose list of files has nixl/__init__.py.

    Reads one folder and the file list of distributions whose name begins with nixl; anything unreadable is no owner.
    """
    try:
        entries = [
            name for name in os.listdir(packages) if name.lower().startswith("nixl") and name.endswith(".dist-info")
        ]
    except OSError:
        return None
    for entry in sorted(entries):
        name = entry[: -len(".dist-info")].rpartition("-")[0]
        if name.lower().replace("-", "_") == _OWN_DISTRIBUTION:
            continue
        try:
            with open(os.path.join(packages, entry, "RECORD"), encoding="utf-8", errors="replace") as record:
                if any(line.startswith("nixl/__init__.py,") for line in record):
                    return name
        except OSError:
            continue
    return None


def warn_of_other_owner() -> None:
    """One warning if files of two distributions are mixed in this package's folder."""
    packages = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    name = other_owner(packages)
    if name is not None:
        with lines_on_stderr():
            get_logger("_foreign").warning(
                "The distribution '%s' in %s owns the package 'nixl' too: its files and those of 'nixl-open' are "
                "mixed. Run 'pip uninstall %s', then install nixl-open again",
                name,
                packages,
                name,
            )
