#!/usr/bin/env python3
"""Compares what a suite of tests did with the list of those that cannot pass. Usage: judge.py go|python RESULTS LIST

RESULTS is what `go test -json` prints, or pytest's JUnit XML. A line of LIST is `TEST: REASON`; lines that begin with `#` are
comments. A test that is not listed must pass, and a listed one must be there and must not pass: one that passes is to be taken
off the list. The exit code is 1 if that does not hold.
"""

import json
import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict

# Of what a failed test printed.
SHOWN_LINES = 25


def of_go(file):
    """By test, how it ended and what it printed; tests within tests belong to theirs. One that never ended has failed."""
    ends, printed = {}, defaultdict(list)
    for line in file:
        event = json.loads(line)
        test = event.get("Test", "").split("/")[0]
        if not test:
            continue
        ends.setdefault(test, "fail")
        if event["Action"] == "output":
            printed[test].append(event["Output"].rstrip())
        elif event["Action"] in ("pass", "fail", "skip") and event["Test"] == test:
            ends[test] = event["Action"]
    return {test: (end, printed[test]) for test, end in ends.items()}


def of_pytest(file):
    results = {}
    for case in ElementTree.parse(file).iter("testcase"):
        # `tests.test_job` and `test_plan` are written `test_job.test_plan`.
        test = f"{case.get('classname').split('.')[-1]}.{case.get('name')}"
        bad = [child for child in case if child.tag in ("failure", "error", "skipped")]
        end = {"failure": "fail", "error": "fail", "skipped": "skip"}[bad[0].tag] if bad else "pass"
        results[test] = (end, (bad[0].text or "").splitlines() if bad else [])
    return results


def listed(file):
    reasons = {}
    for number, line in enumerate(file, 1):
        if line.startswith("#") or not line.strip():
            continue
        test, colon, reason = line.partition(": ")
        if not colon or not reason.strip() or test in reasons:
            sys.exit(f"{file.name}:{number}: expected `TEST: REASON`, each test once: {line.rstrip()}")
        reasons[test] = reason.strip()
    return reasons


def complaints(results, reasons):
    for test, (end, printed) in sorted(results.items()):
        if test in reasons and end == "pass":
            yield f"{test} passes: take it off the list", []
        elif test not in reasons and end != "pass":
            yield f"{test}: {end}, and is not listed", printed[-SHOWN_LINES:]
    for test in sorted(reasons.keys() - results.keys()):
        yield f"{test} is listed, and no such test ran", []


def main():
    kind, results_path, list_path = sys.argv[1:]
    with open(results_path, encoding="utf-8") as file:
        results = {"go": of_go, "python": of_pytest}[kind](file)
    with open(list_path, encoding="utf-8") as file:
        reasons = listed(file)
    wrong = list(complaints(results, reasons))
    for text, printed in wrong:
        print(f"{kind}: {text}", *printed, sep="\n    ", file=sys.stderr)
    passed = sum(end == "pass" for end, _ in results.values())
    print(f"{kind}: {passed} of {len(results)} tests pass, {len(reasons)} are listed, {len(wrong)} are not as they should be")
    if wrong or not passed:
        sys.exit(1)


main()
