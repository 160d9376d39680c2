"""A watched ``fakedev serve`` (benchmarks/watched_serve.py) whose clock can be set (shifted_serve.py)."""

from __future__ import annotations

import sys
from pathlib import Path

from shifted_serve import let_clock_be_set

if __name__ == "__main__":
    let_clock_be_set()
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from watched_serve import main

    raise SystemExit(main())
