"""``make fuzz``: feeds hostile input to everything that reads, until something breaks or the time is over.

FUZZ_SECONDS=600    how long, in all; each target gets the same share
FUZZ_INPUTS=NUMBER  how many inputs, in all, in place of a time
FUZZ_SEED=TEXT      the seed of an earlier run, which gives the same inputs
FUZZ_TARGET=NAME    only targets whose names have this text
FUZZ_INPUT=FILE     only the inputs of this file, which an earlier run wrote
"""

from __future__ import annotations

import math
import os
import re
import secrets
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from twisted.logger import globalLogBeginner

from tests.fuzz.engine import Session, fault_of, read_find
from tests.fuzz.targets import TARGETS
from tests.support.paths import ROOT

_FOLDER = ROOT / ".fuzz"
_SECONDS = 600.0


def say(text: object) -> None:
    """Print a text at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(environ: Mapping[str, str]) -> int:
    """Run what the variables ask for; 1 when something was found."""
    if path := environ.get("FUZZ_INPUT"):
        return repeat(Path(path))
    wanted = environ.get("FUZZ_TARGET", "")
    targets = [target for target in TARGETS if wanted in target.name]
    if not targets:
        say(f"no target has {wanted!r} in its name: there is {', '.join(target.name for target in TARGETS)}")
        return 2
    seed = environ.get("FUZZ_SEED") or secrets.token_hex(4)
    inputs = int(environ.get("FUZZ_INPUTS") or 0)
    seconds = math.inf if inputs else float(environ.get("FUZZ_SECONDS") or _SECONDS)
    say(f"FUZZ_SEED={seed}, {f'{inputs} inputs' if inputs else f'{seconds:g} s'} for {len(targets)} targets")
    # Else Twisted keeps the last 65,536 events, and with them what logged them.
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False)
    finds = done = 0
    end = time.monotonic() + seconds
    for place, target in enumerate(targets):
        began = time.monotonic()
        left = len(targets) - place
        until, most = began + (end - began) / left, (inputs - done) // left if inputs else sys.maxsize
        report = Session(target, seed, lambda count: count < most and time.monotonic() < until).run()  # noqa: B023
        done += report.inputs
        took = time.monotonic() - began
        rate = report.inputs / took
        grown = f"{report.grown_bytes / 2**20:+6.1f} MiB"
        say(f"{target.name:28} {report.inputs:8} inputs {rate:8.0f}/s {report.kinds:6} kinds of answers {grown}")
        for find in report.finds:
            finds += 1
            _FOLDER.mkdir(exist_ok=True)
            path = _FOLDER / f"{re.sub(r'[^a-z]+', '-', target.name.lower())}-{seed}-{finds}.txt"
            path.write_text(find.text(), "utf-8")
            shown = path.relative_to(ROOT)
            fed = repr(find.inputs)
            say(f"\n{find.fault.rstrip()}\ninputs: {fed[:2000]}{'...' if len(fed) > 2000 else ''}")
            say(f"written to {shown}; again: make fuzz FUZZ_INPUT={shown}\n")
    say(f"{finds} finds" if finds else f"nothing found with {done:,} inputs")
    return 1 if finds else 0


def repeat(path: Path) -> int:
    """Feed the inputs of a find; 1 when it is still one."""
    name, inputs = read_find(path)
    target = next((target for target in TARGETS if target.name == name), None)
    if target is None:
        say(f"{path} is for the target {name!r}, which there is not")
        return 2
    fault = fault_of(target, inputs)
    say(fault or f"{name}: nothing is wrong with these {len(inputs)} inputs")
    return 1 if fault else 0


if __name__ == "__main__":
    sys.exit(main(os.environ))
