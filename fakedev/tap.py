"""What ``twistd fakedev`` loads: its options, and the service that is made of them."""

from __future__ import annotations

from fakedev.app.options import Options
from fakedev.app.service import makeService

__all__ = ["Options", "makeService"]
