"""Following files: one report for each change, in whichever way it is made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from fakedev.runtime.disk import FileFollower


class Watcher:
    """Watches folders in name only."""

    def __init__(self, folders: Iterable[str], told: Callable[[], None]) -> None:
        self.folders = set(folders)
        self.told = told
        self.lost = False

    def loseConnection(self) -> None:
        """Watch no more."""
        self.lost = True


class Followed:
    """A follower of some files."""

    def __init__(self, *files: Path) -> None:
        self.files = [str(path) for path in files]
        self.clock = Clock()
        self.watchers: list[Watcher] = []
        self.can_watch = True
        self.changes = 0
        self.follower = FileFollower(lambda: self.files, self._changed, self.clock, self._watch)
        self.follower.startService()

    def _watch(self, folders: Iterable[str], told: Callable[[], None]) -> tuple[Any, bool]:
        self.watchers.append(Watcher(folders, told))
        return self.watchers[-1], self.can_watch

    def _changed(self) -> Deferred[None]:
        self.changes += 1
        return succeed(None)

    def happens(self) -> int:
        """Handle events of a folder; return how many changes were reported since."""
        before = self.changes
        self.watchers[-1].told()
        self.watchers[-1].told()
        self.clock.pump([0.1] * 20)
        return self.changes - before


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """A file."""
    path = tmp_path / "main.yaml"
    path.write_text("1")
    return path


def test_changes(main: Path) -> None:
    """Other text, another file in its place; not what happens to others."""
    followed = Followed(main)
    assert followed.happens() == 0
    main.write_text("12")
    assert followed.happens() == 1
    (main.parent / "other").write_text("x")
    assert followed.happens() == 0
    os.replace(main.parent / "other", main)
    assert followed.happens() == 1


def test_a_file_that_is_removed_first(main: Path) -> None:
    """No change is reported until it exists again."""
    followed = Followed(main)
    main.unlink()
    assert followed.happens() == 0
    main.write_text("new")
    assert followed.happens() == 1


def test_files_that_it_names(main: Path, tmp_path: Path) -> None:
    """Another file counts too, also when it comes later or goes."""
    other = tmp_path / "sub" / "type.yaml"
    other.parent.mkdir()
    other.write_text("x")
    followed = Followed(main)
    assert followed.watchers[-1].folders == {str(tmp_path), os.path.realpath(tmp_path)}
    followed.files.append(str(other))
    main.write_text("12")
    assert followed.happens() == 1
    assert str(other.parent) in followed.watchers[-1].folders
    other.write_text("xy")
    assert followed.happens() == 1
    other.unlink()
    assert followed.happens() == 1


def test_a_mounted_configmap(tmp_path: Path) -> None:
    """A link by a link to a folder, which is swapped: all folders on the way are watched."""
    for version in ("v1", "v2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "main.yaml").write_text("the same")
    (tmp_path / "..data").symlink_to("v1")
    (tmp_path / "main.yaml").symlink_to("..data/main.yaml")
    followed = Followed(tmp_path / "main.yaml")
    assert {str(tmp_path), str(tmp_path / "v1")} <= followed.watchers[-1].folders
    (tmp_path / "..new").symlink_to("v2")
    os.replace(tmp_path / "..new", tmp_path / "..data")
    assert followed.happens() == 1
    assert str(tmp_path / "v2") in followed.watchers[-1].folders
    assert [watcher.lost for watcher in followed.watchers][-2:] == [True, False]


def test_folders_that_cannot_be_watched(main: Path) -> None:
    """They are looked at from time to time."""
    followed = Followed(main)
    followed.can_watch = False
    followed.happens()
    main.write_text("12")
    followed.clock.pump([1.0] * 6)
    assert followed.changes == 1


def test_the_end(main: Path) -> None:
    followed = Followed(main)
    main.write_text("12")
    followed.watchers[-1].told()
    followed.follower.stopService()
    assert followed.watchers[-1].lost
    assert followed.clock.getDelayedCalls() == []
    followed.watchers[-1].told()
    assert followed.clock.getDelayedCalls() == []
