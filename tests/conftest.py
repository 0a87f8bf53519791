"""What all Python tests share."""

import re


def pytest_addoption(parser):
    parser.addoption(
        "--filter",
        metavar="REGEX",
        help="only tests whose id matches in any case of letters, as `./dev test REGEX` says",
    )


def pytest_collection_modifyitems(config, items):
    pattern = config.getoption("--filter")
    if not pattern:
        return
    left = [item for item in items if not re.search(pattern, item.nodeid, re.IGNORECASE)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]
