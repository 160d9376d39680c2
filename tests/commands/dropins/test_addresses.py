"""The addresses that the drop-ins listen on at once are those that the programs themselves find."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.commands.dropins.addresses import addresses_of, option_values
from fakedev.commands.dropins.backend import BackendOptions
from fakedev.commands.dropins.client import ClientOptions
from fakedev.commands.dropins.dcgm_exporter import DcgmOptions
from fakedev.commands.dropins.exporter import ExporterOptions
from fakedev.commands.dropins.frontend import FrontendOptions
from fakedev.config.load import load
from fakedev.schema.files import Files
from fakedev.schema.go_flags import FlagError, HelpAsked

FLAGS = {
    "exporter": ExporterOptions().flags, "dcgm_exporter": DcgmOptions({}).flags, "frontend": FrontendOptions().flags,
    "client": ClientOptions().flags, "backend": BackendOptions({}, "host").flags,
}  # fmt: skip
#: The options with their help, which shows the kind of a value: ``-name KIND``.
NAMES = {program: [line[3:] for line in flags.help().splitlines() if line.startswith("  -")]
         for program, flags in FLAGS.items()}  # fmt: skip


@pytest.mark.parametrize("program", FLAGS)
def test_which_options_take_no_value(program: str) -> None:
    for option in NAMES[program]:
        name, _, kind = option.partition(" ")
        assert option_values([f"-{name}", "x"]) == {name: "x" if kind else "true"}, option


WORDS = st.sampled_from(["x", "-", "--", "9:1", "-address", "--socket=/a", "-count", "1", "-socket", "-record=", "-h"])


@given(st.lists(WORDS, max_size=6))
def test_values_are_those_of_the_program(arguments: list[str]) -> None:
    """For all arguments that it takes."""
    options = ExporterOptions()
    try:
        values = options.flags.parse(arguments)
    except (FlagError, HelpAsked):
        return
    found = option_values(arguments)
    for flag in (options.address, options.socket, options.record):
        assert found.get(flag.name, flag.default) == values[flag]


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [
        ("", {}), ("-a :1", {}), ("--address 127.0.0.1:2 -a :1", {}), ("", {"EXPORTER_PORT": "7"}),
        ("-a :1", {"EXPORTER_PORT": "7"}), ("", {"EXPORTER_PORT": ""}), ("", {"DCGM_EXPORTER_LISTEN": ":3"}),
        ("-k -a=:4 -c 5", {"DCGM_EXPORTER_LISTEN": ":3"}), ("", {"ENABLE_UDS": "true"}), ("", {"ENABLE_UDS": "False"}),
        ("", {"ENABLE_UDS": "1", "UDS_SOCKET_PATH": "/run/../x.sock"}), ("", {"DCGM_EXPORTER_LISTEN": ""}),
    ],
)  # fmt: skip
def test_of_the_dcgm_exporter(arguments: str, environ: dict[str, str]) -> None:
    """By flags and variables."""
    options = DcgmOptions(environ)
    text, identity = options.texts(options.flags.parse(arguments.split()))
    files = Files(environ={}, made={"/fakedev-dcgm-exporter/identity.yaml": identity})
    web = [endpoint.listen for endpoint in load("options", files, text=text).web]
    found = addresses_of("dcgm_exporter", arguments.split(), environ)
    shown = [address if address[0] != ":" else f"*{address}" for address, _ in found]
    assert shown == [listen.display for listen in web]
    assert [mode for _, mode in found[1:]] == [listen.mode for listen in web[1:]]


def test_of_the_others() -> None:
    """Of which the addresses are options alone."""
    path = os.path.abspath("w.sock")
    assert addresses_of("exporter", ["-count", "2", "-socket=w.sock"], {}) == [(":9999", 0), (path, 0o600)]
    assert addresses_of("exporter", [], {})[1] == ("/tmp/fakedev-exporter", 0o600)
    frontend = addresses_of("frontend", ["-verbose", "--caddr", ":1", "q", "-waddr", ":2"], {})
    assert frontend == [("localhost:9998", 0), (":1", 0), ("localhost:9999", 0)]
    assert addresses_of("client", ["-headless=false"], {}) == [("localhost:9996", 0)]
    assert addresses_of("client", ["-verbose", "-headless"], {}) == []
    assert addresses_of("backend", [], {}) == []
    assert addresses_of("exporter", ["-address", ":1", "--help"], {}) == []
