"""The Python package libucx, which holds a UCX that the library may open."""

import importlib.util

from . import _bindings


def announce() -> None:
    """Tells the library where the package lies, if there is one. Nothing of it is imported or loaded."""
    try:
        spec = importlib.util.find_spec("libucx")
    except (ImportError, ValueError):
        return
    for folder in (spec and spec.submodule_search_locations) or ():
        _bindings.add_libucx(folder)
