"""A cluster in memory that the whole application follows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kube.followed import FollowedCluster, followed


@pytest.fixture
def cluster(tmp_path: Path) -> FollowedCluster:
    """A cluster with the nodes ``a`` and ``b``."""
    return followed(tmp_path, "a", "b")
