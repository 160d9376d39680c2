"""Why a frontend does not serve a client or a backend."""

from __future__ import annotations


class FrontendLost(Exception):
    """The frontend cannot be reached, or has closed the connection; trying again may help."""


class FrontendRefused(Exception):
    """The frontend refuses the request, or does not speak this protocol; trying again does not help."""
