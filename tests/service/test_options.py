"""What the options of the application do, good and wrong ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from twisted.scripts.twistd import ServerOptions

from fakedev.commands.main import main
from fakedev.config.options import SERVE
from fakedev.service.options import Options
from tests.support.application import SMALL, parsed


def exit_of(*arguments: str) -> object:
    """The code with which `fakedev serve` ends at once."""
    with pytest.raises(SystemExit) as ended:
        main(["serve", *arguments])
    return ended.value.code


def test_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 and a line for a good file; notes on standard error."""
    good = tmp_path / "good.yaml"
    good.write_text(SMALL)
    assert exit_of("--config", str(good), "--check") == 0
    assert capsys.readouterr().out == f"{good}: good\n"
    assert exit_of("--check") == 0
    assert capsys.readouterr().out == "the built-in demo: good\n"


def test_a_broken_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """2 and all problems at once, each with its line, with --check and without."""
    broken = tmp_path / "broken.yaml"
    broken.write_text(SMALL.replace("h100", "h1000").replace("web:", "wep:").replace("seed: 7", "seed: seven"))
    said = []
    for arguments in (["--check"], [], ["--print-config"]):
        assert exit_of("--config", str(broken), *arguments) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        said.append(captured.err)
    assert len(set(said)) == 1
    problems = said[0].splitlines()
    assert [problem.split(": ")[0] for problem in problems] == [f"{broken}:{line}" for line in (4, 5, 6)]
    assert "h100" in problems[1]
    assert "web" in problems[2]
    assert exit_of("--config", str(tmp_path / "none.yaml")) == 2
    assert "no such file" in capsys.readouterr().err


def test_print_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The effective configuration with origins; it can be used as a configuration, and is the same again."""
    good = tmp_path / "good.yaml"
    good.write_text(SMALL)
    assert exit_of("-c", str(good), "--set", "fleet.seed=99", "--print-config") == 0
    printed = capsys.readouterr().out
    assert "seed: 99" in printed
    assert f"{good}:" in printed
    again = tmp_path / "again.yaml"
    again.write_text(printed)
    expected = parsed("-c", str(good), "--set", "fleet.seed=99").configuration
    assert parsed("-c", str(again)).configuration.fleet == expected.fleet


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--confg", "x"], "there is no option --confg; did you mean --config?"),
        (["file.yaml"], "unexpected 'file.yaml'"),
        (["--config"], "--config/-c: expected one argument"),
        (["--check=yes"], "--check: takes no value, and not 'yes'"),
        (["--port", "http"], "--port: 'http' is no port: from 0 (any free one) to 65535"),
        (["--shard", "3/3"], "--shard: "),
    ],
)
def test_wrong_options(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_of(*arguments) == 2
    out, line = capsys.readouterr()
    assert out == ""
    assert line.startswith(f"fakedev serve: {text}")
    assert line.endswith("; --help lists the options\n")
    assert line.count("\n") == 1


@pytest.mark.parametrize(
    ("web", "address"),
    [
        ("", "127.0.0.1:9500"),
        ("web: [9400]", "127.0.0.1:9500"),
        ('web: [{listen: "*:9400", serve: metrics}, 9401]', "*:9500"),
        ('web: [{listen: "[::1]:9400"}]', "[::1]:9500"),
        ('web: [{listen: "gpus.example.org:80", serve: metrics}]', "gpus.example.org:9500"),
    ],
)
def test_port(web: str, address: str, tmp_path: Path) -> None:
    """The port of the first HTTP address, whose host stays; twistd has the option too."""
    path = tmp_path / "f.yaml"
    path.write_text(SMALL[: SMALL.index("web:")] + web)
    order = parsed("--config", str(path), "--port", "9500")
    assert order.configuration.web[0].listen.display == address
    assert order.run.head.overrides == ["--port=9500"]


@pytest.mark.parametrize(
    ("web", "text"),
    [
        ("web: []", "the configuration has no web.0 that listens"),
        ("web: [/run/f.sock]", "web.0 listens on /run/f.sock, which has no port"),
        ('web: ["runtime:f.sock"]', "web.0 listens on runtime:f.sock, which has no port"),
        ('web: ["systemd:domain=UNIX:index=0"]', "web.0 listens on systemd:domain=UNIX:index=0, which has no port"),
        ('web: [{per-node: "127.64.0.0/16:9400"}]', "the configuration has no web.0 that listens"),
    ],
)
def test_port_without_one(web: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(SMALL[: SMALL.index("web:")] + web)
    assert exit_of("--config", str(path), "--port", "9500") == 2
    remedy = "give the whole address, as --set web.0.listen=127.0.0.1:9500"
    assert capsys.readouterr().err == f"--port: {text}: {remedy}\n"


def test_one_set_of_options(capsys: pytest.CaptureFixture[str]) -> None:
    """twistd's options are those of `fakedev serve`, with the same help."""
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    words = capsys.readouterr().out.split()
    for option in SERVE:
        assert f"--{option.name}" in words
        assert f"--{option.name}" in str(Options()) and option.help.split()[0] in str(Options())


def test_wrong_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_of("--set", "fleet.sead=7") == 2
    assert "--set" in capsys.readouterr().err
    assert exit_of("--set", "fleet.seed") == 2
    assert "--set" in capsys.readouterr().err


def test_the_main_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("fakedev 0.")
    assert main(["--help"]) == 0
    assert "render" in capsys.readouterr().out
    assert main([]) == 2
    capsys.readouterr()
    assert main(["sevre"]) == 2
    assert capsys.readouterr().err == "fakedev: no subcommand 'sevre'; did you mean serve?\n"
    assert main(["xyz"]) == 2
    begin = "fakedev: no subcommand 'xyz'; there are serve, render, scenario, replay, ps, status, top, "
    assert capsys.readouterr().err.startswith(begin)
    assert exit_of("--version") == 0
    assert exit_of("--help") == 0
    assert "--ready-file" in capsys.readouterr().out


class TestPidFile:
    """The pid file of twistd."""

    @staticmethod
    def chosen(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
        """The pid file that twistd uses with these options."""
        monkeypatch.setattr("sys.argv", ["program", *arguments, "fakedev"])
        options = ServerOptions()
        options.parseOptions()
        return os.path.basename(options["pidfile"])

    @pytest.mark.parametrize(
        ("arguments", "file"),
        [
            (["-n"], ""),
            (["--nodaemon"], ""),
            (["-n", "--pidfile=a.pid"], "a.pid"),
            (["-n", "--pidfile", "twistd.pid"], "twistd.pid"),
            (["-n", "--pidf=twistd.pid"], "twistd.pid"),
            (["-n", "--pidfile="], ""),
            ([], "twistd.pid"),
        ],
    )
    def test_when_there_is_one(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], file: str
    ) -> None:
        """A daemon has one, and a program in the foreground that is asked for one."""
        monkeypatch.chdir(tmp_path)
        assert self.chosen(monkeypatch, *arguments) == file

    def test_one_that_cannot_be_written(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        with pytest.raises(SystemExit) as caught:
            self.chosen(monkeypatch, f"--pidfile={tmp_path}/none/a.pid")
        assert caught.value.code == (
            f"fakedev: the pid file {tmp_path}/none/a.pid cannot be written; "
            "give another one, or none: twistd --pidfile="
        )
