"""The loggers of the package."""

import logging
import os
import subprocess
import sys

import pytest
from nixl import logging as nixl_logging


@pytest.fixture
def logger():
    """A logger whose level the tests may change."""
    logger = logging.Logger("probe", logging.INFO)
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append((record.levelname, record.getMessage()))
    logger.addHandler(handler)
    logger.lines = lines
    return logger


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("TRACE", logging.DEBUG),
        ("DEBUG", logging.DEBUG),
        ("INFO", logging.INFO),
        ("WARN", logging.WARNING),
        ("ERROR", logging.ERROR),
        ("FATAL", logging.CRITICAL),
        ("debug", logging.DEBUG),
    ],
)
def test_levels_by_the_environment(logger, monkeypatch, name, level):
    monkeypatch.setenv("NIXL_LOG_LEVEL", name)
    nixl_logging.set_log_level_by_env(logger)
    assert (logger.level, logger.lines) == (level, [])


def test_an_unknown_level_is_a_warning(logger, monkeypatch):
    monkeypatch.setenv("NIXL_LOG_LEVEL", "LOUD")
    nixl_logging.set_log_level_by_env(logger)
    assert logger.level == logging.INFO
    assert len(logger.lines) == 1 and logger.lines[0][0] == "WARNING" and "LOUD" in logger.lines[0][1]


def test_names_of_loggers():
    assert nixl_logging.get_logger("__api").name == "nixl.api"
    assert nixl_logging.get_logger("connector").name == "nixl.connector"


def show(environment, statement):
    script = f"import logging; from nixl.logging import get_logger; log = get_logger('x'); {statement}"
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=True
    )


def test_lines_go_to_stdout():
    environment = {key: value for key, value in os.environ.items() if not key.startswith("NIXL_")}
    shown = show(environment, "log.info('seen'); log.debug('hidden')")
    assert "NIXL INFO    <string>:1 seen" in shown.stdout and "hidden" not in shown.stdout
    assert shown.stderr == ""
    assert "hidden" in show({**environment, "NIXL_LOG_LEVEL": "DEBUG"}, "log.debug('hidden')").stdout
    assert show({**environment, "NIXL_LOG_LEVEL": "ERROR"}, "log.warning('hidden')").stdout == ""


@pytest.mark.parametrize(("value", "shown"), [("true", "True"), ("YES", "True"), ("1", "True"), ("no", "False")])
def test_errors_inside_of_logging(value, shown):
    result = show({**os.environ, "NIXL_DEBUG_LOGGING": value}, "print(logging.raiseExceptions)")
    assert result.stdout == f"{shown}\n"
