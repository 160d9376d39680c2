"""The limit of open descriptors: each connection needs one, and the usual soft limit is 1024."""

from __future__ import annotations

import resource

from twisted.logger import Logger

_log = Logger()


def raise_descriptor_limit() -> int:
    """Raise this process's soft limit of descriptors to the hard limit, and return the limit that holds now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError) as reason:
            # Some systems report a hard limit that they do not grant.
            _log.warn(
                "the limit of {soft} open descriptors cannot be raised to {hard}: {reason}",
                soft=soft, hard=hard, reason=str(reason),
            )  # fmt: skip
            return soft
    _log.debug("up to {limit} descriptors may be open (it was {soft})", limit=hard, soft=soft)
    return hard
