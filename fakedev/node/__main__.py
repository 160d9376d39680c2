"""``python -m fakedev.node`` is fakedev-node."""

from __future__ import annotations

from fakedev.node.main import main

if __name__ == "__main__":
    raise SystemExit(main())
