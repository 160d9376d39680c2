"""The entry of ``twistd fakedev``: its options and its service."""

from __future__ import annotations

from fakedev.app.options import Options
from fakedev.app.service import makeService

__all__ = ["Options", "makeService"]
