"""Runs the checks of a client's script: each in its turn, whatever became of those before it."""

import sys
import traceback


def run(*checks):
    """Calls each check, prints `ok NAME` or why not, and ends the program with the number that failed."""
    failed = 0
    for check in checks:
        try:
            check()
        except Exception:  # noqa: BLE001: whatever it is, it is told
            failed += 1
            print(f"FAILED {check.__name__}\n{traceback.format_exc()}", flush=True)
        else:
            print(f"ok {check.__name__}", flush=True)
    sys.exit(failed)


def same(found, expected, *of):
    """Fails unless both are equal."""
    if found != expected or type(found) is not type(expected):
        raise AssertionError(f"{' '.join(map(str, of))}\n   found {found!r}\nexpected {expected!r}")


def fails(expected, call, *of):
    """The error of this kind that the call raises."""
    try:
        given = call()
    except expected as error:
        return error
    raise AssertionError(f"{' '.join(map(str, of))}\nthis should have failed, and gave {given!r}")
