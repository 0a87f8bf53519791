"""The loggers of the package: children of "nixl", which writes to stdout; during the import of `nixl`, to stderr.

NIXL_LOG_LEVEL (TRACE, DEBUG, INFO, WARN, ERROR, FATAL) sets the level of "nixl"; INFO without it. The C++ library reads
the same variable for its own lines, which go to stderr. NIXL_DEBUG_LOGGING (true, 1, yes; anything else: no) says
whether errors inside of logging are shown.
"""

from __future__ import annotations

import contextlib
import logging
import logging.config
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any, TextIO

__all__ = ["LOGGING_CONFIG", "get_logger", "set_log_level_by_env", "setup_logging"]

_ROOT = "nixl"

LOGGING_CONFIG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "nixl": {
            "format": "%(asctime)s NIXL %(levelname)-7s %(filename)s:%(lineno)d %(message)s",
            "datefmt": "%Y-%m-%d %H:%M:%S",
        },
    },
    "handlers": {
        "nixl": {
            "class": "logging.StreamHandler",
            "level": "DEBUG",
            "formatter": "nixl",
            "stream": "ext://sys.stdout",
        },
    },
    "loggers": {
        _ROOT: {"level": "INFO", "handlers": ["nixl"], "propagate": False},
    },
}

_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}

_lock = threading.Lock()
_logging_configured = False


def set_log_level_by_env(nixl_logger: logging.Logger) -> None:
    """Sets the level that NIXL_LOG_LEVEL names. An unknown name is a warning and changes nothing."""
    name = os.environ.get("NIXL_LOG_LEVEL", "")
    if not name:
        return
    level = _LEVELS.get(name.upper())
    if level is None:
        nixl_logger.warning("NIXL_LOG_LEVEL is '%s'; known are %s", name, ", ".join(_LEVELS))
        return
    nixl_logger.setLevel(level)


def setup_logging() -> None:
    """Configures the logger "nixl", once per process."""
    global _logging_configured
    with _lock:
        if _logging_configured:
            return
        logging.config.dictConfig(LOGGING_CONFIG)
        if "NIXL_DEBUG_LOGGING" in os.environ:
            logging.raiseExceptions = os.environ["NIXL_DEBUG_LOGGING"].lower() in ("true", "1", "yes")
        with lines_on_stderr():
            set_log_level_by_env(logging.getLogger(_ROOT))
        _logging_configured = True


def send_lines_to(stream: TextIO) -> None:
    """Has the lines that go to stdout go to `stream` instead: for programs whose stdout is for something else."""
    for handler in _handlers():
        handler.setStream(stream)


@contextlib.contextmanager
def lines_on_stderr() -> Iterator[None]:
    """Lines inside go to stderr. For what is said while `nixl` is imported, before send_lines_to can be called."""
    handlers = _handlers()
    for handler in handlers:
        handler.setStream(sys.stderr)
    try:
        yield
    finally:
        for handler in handlers:
            handler.setStream(sys.stdout)


def _handlers() -> list[logging.StreamHandler]:
    """Those that write to stdout."""
    return [
        handler
        for handler in logging.getLogger(_ROOT).handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stdout
    ]


def get_logger(name: str) -> logging.Logger:
    """The logger "nixl.NAME"; underscores in front of the name are left out."""
    setup_logging()
    return logging.getLogger(f"{_ROOT}.{name.lstrip('_')}")
