"""The source of a configuration: enough to read the same configuration again on another machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fakedev.spec.errors import Refused


@dataclass(frozen=True)
class RecordHead:
    """The head of a record, and the source in the event of a reload.

    :ivar config: path of the configuration; None for the built-in demo.
    :ivar text: the configuration itself, if a command generated it; else None.
    :ivar files: path to text of every file that was read.
    :ivar environment: the variables that the files use.
    :ivar overrides: ``key=value`` of the command line.
    """

    version: str
    epoch_seconds: float
    config: str | None = None
    text: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    overrides: Sequence[str] = ()

    def fields(self) -> dict[str, object]:
        """The head as plain values, for a line of a record."""
        return {
            "version": self.version,
            "epoch": self.epoch_seconds,
            "config": self.config,
            "text": self.text,
            "files": dict(self.files),
            "environment": dict(self.environment),
            "overrides": list(self.overrides),
        }

    @classmethod
    def of(cls, fields: Mapping[str, object]) -> RecordHead:
        """The head from its :meth:`fields`.

        :raises Refused: for wrong or missing fields.
        """
        try:
            config, text = fields["config"], fields["text"]
            files, environment, overrides = fields["files"], fields["environment"], fields["overrides"]
            epoch, version = fields["epoch"], fields["version"]
        except KeyError as missing:
            raise Refused("bad-argument", f"no {missing.args[0]!r}") from None
        if not isinstance(files, dict) or not isinstance(environment, dict) or not isinstance(overrides, list):
            raise Refused("bad-argument", "files and environment must be objects, overrides a list")
        if isinstance(epoch, bool) or not isinstance(epoch, int | float):
            raise Refused("bad-argument", "epoch must be a number")
        return cls(
            version=str(version),
            epoch_seconds=float(epoch),
            config=None if config is None else str(config),
            text=None if text is None else str(text),
            files={str(path): str(content) for path, content in files.items()},
            environment={str(name): str(value) for name, value in environment.items()},
            overrides=[str(override) for override in overrides],
        )
