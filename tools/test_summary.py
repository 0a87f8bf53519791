#!/usr/bin/env python3
"""Adds up JUnit files and prints the names of the failed tests and one line: `N passed, N failed, N skipped`.

Usage: test_summary.py FILE.xml... Exit code 1 if a test failed, a file is missing or unreadable, or none ran.
"""

import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path


def outcome(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    # ctest marks a test that did not run by its status as well.
    if case.find("skipped") is not None or case.get("status") in {"notrun", "disabled"}:
        return "skipped"
    return "passed"


def name_of(case):
    group = case.get("classname")
    name = case.get("name", "?")
    return name if not group or group == name else f"{group}::{name}"


def main(paths):
    counts = Counter()
    for path in paths:
        try:
            cases = ElementTree.parse(path).getroot().iter("testcase")
        except (OSError, ElementTree.ParseError) as error:
            print(f"FAILED {Path(path).stem}: left no results ({error})")
            counts["failed"] += 1
            continue
        for case in cases:
            result = outcome(case)
            counts[result] += 1
            if result == "failed":
                print(f"FAILED {name_of(case)}")
    if not counts:
        print("no test ran")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] or not counts else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
