"""Keys of entities, for randomness and all else that must not depend on places in arrays. Imports no NumPy."""

from __future__ import annotations

import hashlib


def entity_key(*names: str) -> int:
    """A 64-bit key of an entity, from its names (pool, node, device, workload), never its position."""
    digest = hashlib.blake2b("\0".join(names).encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "little")
