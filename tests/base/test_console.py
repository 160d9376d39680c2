"""What all commands share: progress on a terminal, and options."""

from __future__ import annotations

import io

import pytest

from fakedev.base.console import Progress, ProgressLine, write_text
from fakedev.commands.main import main, subcommands
from tests.support.source.source_tree import modules


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        """It is."""
        return True


def test_progress() -> None:
    """Not in the first two seconds; then once a second at most; removed at the end."""
    stream, now = Terminal(), [0.0]
    with Progress("fakedev render", stream, lambda: now[0]) as progress:
        for moment, done in ((0.5, 0.1), (1.9, 0.3), (2.0, 0.25), (2.9, 0.3), (3.0, 0.5), (300.0, 0.6), (400.0, 0.0)):
            now[0] = moment
            progress.show(done)
    assert [part.removesuffix("\x1b[K") for part in stream.getvalue().split("\r")] == [
        "",
        "fakedev render: 25% done, about 6 s left",
        "fakedev render: 50% done, about 3 s left",
        "fakedev render: 60% done, about 3 min left",
        "",
    ]


@pytest.mark.parametrize("stream", [None, io.StringIO()])
def test_progress_elsewhere(stream: io.StringIO | None) -> None:
    """Nothing: it would be in the way of a script."""
    now = [0.0]
    with Progress("fakedev render", stream, lambda: now[0]) as progress:
        now[0] = 60.0
        progress.show(0.5)
    assert stream is None or stream.getvalue() == ""


@pytest.mark.parametrize("command", [name for group in subcommands().values() for name in group])
def test_one_style(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Help, version and a wrong option are the same for all commands."""
    for option, begin in (("--help", f"usage: fakedev {command} "), ("--version", "fakedev 0.")):
        with pytest.raises(SystemExit) as ended:
            main([command, option])
        assert ended.value.code == 0
        assert capsys.readouterr().out.startswith(begin)
    with pytest.raises(SystemExit) as ended:
        main([command, "--verison"])
    assert ended.value.code == 2
    wrong = f"fakedev {command}: there is no option --verison; did you mean --version?; --help lists the options\n"
    assert capsys.readouterr().err == wrong


EVIL = "\x1b]0;title\x07\x1b[31mred\x9b31m\u202e\r"


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_escapes_reach_no_stream(stream: io.StringIO) -> None:
    """A text may quote anybody: only line ends and tabs are passed on."""
    write_text(stream, f"one{EVIL}\n\ttwo\n")
    assert stream.getvalue() == "one\\x1b]0;title\\x07\\x1b[31mred\\x9b31m\\u202e\\r\n\ttwo\n"


def test_documents() -> None:
    """They are for programs, and stay as they are, but on a terminal."""
    for stream, is_same in ((io.StringIO(), True), (Terminal(), False)):
        write_text(stream, EVIL, is_document=True)
        assert (stream.getvalue() == EVIL) == is_same
        assert ("\x1b" in stream.getvalue()) == is_same


def test_progress_of_a_peer() -> None:
    """Its own escapes are the only ones."""
    stream = Terminal()
    ProgressLine(stream).tell(EVIL)
    assert stream.getvalue().replace("\x1b[K", "").count("\x1b") == 0


@pytest.mark.slow
def test_nothing_is_written_otherwise() -> None:
    """Every text for a terminal goes through this module; ruff refuses print(). Drivers' programs have their own."""
    calls = {"sys.stdout.write", "sys.stderr.write", "sys.stdout.writelines"}
    writers = modules(word="std")  # all others name neither of the two
    others = {writer.name for writer in writers if calls & {name.name for name in writer.dotted_names}}
    assert others == {"fakedev.nvml.smi.main", "fakedev.nvml.smi.dcgmi", "fakedev.nvml.amd.amdsmi"}
