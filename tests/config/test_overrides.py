"""What wins: options, environment, file, default; and how the result is shown."""

# ruff: noqa: E501 - the tables hold whole messages
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from fakedev.commands.main import main
from fakedev.config.export import effective_text
from fakedev.config.load import load
from fakedev.schema.files import Files
from tests.support.configurations import loaded, pool, problems
from tests.support.documents.configuration import (
    HOW,
    REFERENCE,
    SCENARIO_SCHEMA,
    SCENARIOS,
    SCHEMA,
    current_reference,
    current_scenario_schema,
    current_scenarios,
    current_schema,
)
from tests.support.paths import ROOT


def test_precedence() -> None:
    """Option, environment, file, default, each wins over the next."""
    environ = {"FAKEDEV__FLEET__SEED": "3"}
    assert loaded("{}").fleet.seed == 1
    assert loaded("fleet: {seed: 2}").fleet.seed == 2
    assert loaded("fleet: {seed: 2}", environ=environ).fleet.seed == 3
    assert loaded("fleet: {seed: 2}", environ=environ, overrides=["fleet.seed=4"]).fleet.seed == 4
    assert loaded("", overrides=["fleet.seed=4", "fleet.seed=5"]).fleet.seed == 5


def test_paths_into_lists_defaults_and_short_forms() -> None:
    """Items are numbered, defaults can be changed in part, a short form is opened."""
    assert loaded("", overrides=["web.0.listen=9401"]).web[0].listen.port == 9401
    assert len(loaded("", overrides=["web.0.listen=9401"]).web) == 2
    assert loaded("web: [9400]", overrides=["web.0.serve=metrics"]).web[0].serve == "metrics"
    assert [each.listen.port for each in loaded("web: [9400]", overrides=["web.1=9402"]).web] == [9400, 9402]
    assert loaded("", overrides=["web=[]"]).web == ()
    assert loaded("", overrides=["web.0=*:9400", "web.0.open=true"]).web[0].open
    assert loaded("", overrides=["fleet.pools.0.labels.rack=a=b"]).fleet.pools[0].facts == {"rack": "a=b"}
    assert loaded(pool(), overrides=["fleet.pools.1.name=b"]).fleet.pools[1].name == "b"
    environ = {"FAKEDEV__WORKLOADS__MAX_CONNECTIONS": "5", "FAKEDEV__WEB__0__LISTEN": "9403"}
    found = loaded("", environ=environ)
    assert (found.workloads.max_connections, found.web[0].listen.port) == (5, 9403)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("fleet.sed=3", "--set fleet.sed: unknown key 'sed'; did you mean 'seed'?"),
        ("zzz=3", "--set zzz: unknown key 'zzz'; known here: version, fleet, topology, web, web-config, workloads, faults, limits, journal, state, hpc-jobs, nvml, otlp, log, watch, queues, tester, kubernetes"),
        ("fleet.seed", "--set fleet.seed: has no value: write it as --set fleet.seed=7"),
        ("=3", "--set =3: has no value: write it as --set fleet.seed=7"),
        (
            "fleet.seed=x",
            "--set fleet.seed: fleet.seed: must be a whole number within 0 to 9223372036854775807, not 'x'",
        ),
        ("web.9.listen=1", "--set web.9.listen: there are 2 items: the next one is 2, not 9"),
        ("web.x=1", "--set web.x: 'x' is no number: items of a list are named 0, 1, ..."),
        ("web=[1", "--set web: is not YAML: did not find expected ',' or ']' (while parsing a flow sequence)"),
        (".".join("a" * 40) + "=1", f"--set {'.'.join('a' * 40)}: has too many steps"),
    ],
)
def test_option_problems(override: str, expected: str) -> None:
    assert problems("", overrides=[override]) == [expected]


def test_environment_problems() -> None:
    assert problems("", environ={"FAKEDEV__FLEET__SED": "1"}) == [
        "environment FAKEDEV__FLEET__SED: unknown key 'SED'; did you mean 'seed'?"
    ]
    assert problems("{}", environ={"FAKEDEV_OTHER": "1"}) == []


TEXT = """\
fleet:
  tick: 500ms
  pools:
    - {name: a, nodes: [x, "y"], device: t4, labels: {rack: "on $$5", quote: "a\\"b\\\\c é \\u0085"}, devices: [{index: 0, serial: "007"}]}
web:
  - {listen: "127.0.0.1:9400", token: "${TOKEN}", names: [a.example]}
  - /run/x.sock
workloads:
  listen: [/run/w.sock]
  base: [{name: "null", profile: 10:5:0, devices: [x/0, y/1], limits: {power: 1.5e1}, ttl: 1h30m}]
"""


def shown(overrides: list[str] | None = None) -> str:
    """The effective configuration of TEXT."""
    environ = {"TOKEN": "0123456789", "FAKEDEV__LOG__LEVEL": "warn"}
    return effective_text(loaded(TEXT, environ=environ, overrides=overrides or ["fleet.seed=7"]))


@pytest.mark.parametrize(
    "line",
    [
        "  seed: 7  # --set fleet.seed",
        "  tick: 500ms  # /conf/f.yaml:2",
        "  speed: 1  # default",
        "  # epoch: start  # default",
        "    - name: a  # /conf/f.yaml:4",
        "      identity: dcgm  # default",
        '    token: "********"  # environment TOKEN',
        "  level: warn  # environment FAKEDEV__LOG__LEVEL",
        "    # mode: 600; with a group 660  # default",
        '      profile: "10:5:0"  # /conf/f.yaml:10',
        "  message-timeout: 10s  # default",
    ],
)
def test_origins_are_shown(line: str) -> None:
    assert line in shown().splitlines()


def test_secrets_are_hidden() -> None:
    assert "0123456789" not in shown()


def test_what_is_shown_is_the_same_configuration() -> None:
    """The effective configuration, used as a file, says the same again (but for the hidden token)."""
    before = loaded(TEXT, environ={"TOKEN": "********", "FAKEDEV__LOG__LEVEL": "warn"}, overrides=["fleet.seed=7"])
    after = loaded(shown())
    for part in ("fleet", "identities", "speed", "web", "workloads", "logging", "epoch_is_start"):
        assert getattr(after, part) == getattr(before, part), part


def test_the_demo_is_shown_and_read_again() -> None:
    demo = load(None, Files())
    again = loaded(effective_text(demo))
    assert (again.fleet, again.web, again.workloads) == (demo.fleet, demo.web, demo.workloads)


# -- documents ----------------------------------------------------------------------------------------


def test_the_reference_is_current() -> None:
    """Every key is in the documentation with type, unit and default."""
    assert REFERENCE.read_text(encoding="utf-8") == current_reference(), f"{REFERENCE} {HOW}"
    assert SCENARIOS.read_text(encoding="utf-8") == current_scenarios(), f"{SCENARIOS} {HOW}"


def test_the_schema_is_current() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == current_schema(), f"{SCHEMA} {HOW}"
    assert SCENARIO_SCHEMA.read_text(encoding="utf-8") == current_scenario_schema(), f"{SCENARIO_SCHEMA} {HOW}"


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """The installed one, which has a name."""
    assert main(["schema"]) == 0
    assert capsys.readouterr().out == SCHEMA.read_text(encoding="utf-8")
    assert json.loads(current_schema())["$id"] == "urn:fakedev:configuration:1"


CONFIGURATIONS = [path for path in sorted(ROOT.glob("etc/**/*.yaml")) if path.stem in ("fakedev", "container", "loop")]


@pytest.mark.parametrize("path", [*CONFIGURATIONS, SCHEMA.parent / "demo.yaml"], ids=lambda path: f"{path.parent.name}")
def test_configurations_name_their_schema(path: Path) -> None:
    """In the first line, for editors."""
    first, _, text = path.read_text(encoding="utf-8").partition("\n")
    named = first.removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / named).resolve() == SCHEMA.resolve()
    assert "version: 1\n" in text


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value fits a JSON Schema, for the words that ours uses."""
    kinds = schema.get("type", [])
    names = {"object": dict, "array": list, "string": str, "number": (int, float), "integer": int, "boolean": bool}
    kinds = [kinds] if isinstance(kinds, str) else kinds
    checks = [
        not kinds
        or any(isinstance(value, names[k]) and (k == "boolean" or not isinstance(value, bool)) for k in kinds),
        "anyOf" not in schema or any(fits(value, each) for each in schema["anyOf"]),
        "enum" not in schema or value in schema["enum"],
        "not" not in schema,
    ]
    if isinstance(value, int | float) and not isinstance(value, bool):
        checks += [value >= schema.get("minimum", value), value <= schema.get("maximum", value)]
    if isinstance(value, str) and "pattern" in schema:
        checks.append("${" in value)
    if isinstance(value, list) and "items" in schema:
        checks += [len(value) >= schema.get("minItems", 0), *(fits(each, schema["items"]) for each in value)]
    if isinstance(value, dict) and kinds:
        known, more = schema.get("properties", {}), schema.get("additionalProperties")
        checks += [key in known or more is not False for key in value]
        checks += [
            fits(each, known.get(key, more)) for key, each in value.items() if key in known or isinstance(more, dict)
        ]
        checks += [key in value for key in schema.get("required", [])]
    return all(checks)


GOOD = yaml.safe_load((ROOT / "fakedev" / "config" / "demo.yaml").read_text(encoding="utf-8"))


def test_the_schema_takes_what_is_good() -> None:
    """The demo, the example of the documentation, and the short forms fit the schema."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    example = REFERENCE.read_text(encoding="utf-8").split("\n\n    version: 1\n")[1].split("\n\n## ")[0]
    documented = yaml.safe_load("version: 1\n" + "\n".join(line[4:] for line in example.splitlines()))
    assert fits(GOOD, schema)
    assert fits(documented, schema)
    assert fits({"queues": {"names": ["sleep"], "listen-clients": [9997]}}, schema)
    assert fits({"queues": {"names": {"sleep": {"max-waiting": 10}}, "window": "30s"}}, schema)
    assert fits({"web": [9400, "/a"], "fleet": {"seed": "${SEED:-1}"}, "workloads": {"base": ["x.json"]}}, schema)


@pytest.mark.parametrize(
    "wrong",
    [
        {"fleet": {"sed": 1}},
        {"fleet": {"seed": "x"}},
        {"fleet": {"seed": -1}},
        {"fleet": {"pools": []}},
        {"fleet": {"pools": [{}]}},
        {"queues": {"names": 3}},
        {"queues": {"names": {"sleep": {"retrys": 1}}}},
        {"tester": {"plans": [{"name": "a"}]}},
        {"web": 9400},
        {"web": [{"listen": 9400, "serve": "al"}]},
        {"log": {"level": True}},
    ],
)
def test_the_schema_refuses_what_is_wrong(wrong: dict[str, Any]) -> None:
    """What loading refuses by its shape the schema refuses, too."""
    assert not fits(wrong, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert problems(json.dumps(wrong))


def test_the_documented_example_loads() -> None:
    example = REFERENCE.read_text(encoding="utf-8").split("\n\n    version: 1\n")[1].split("\n\n## ")[0]
    text = "version: 1\n" + "\n".join(line[4:] for line in example.splitlines())
    assert [node.name for node in loaded(text).fleet.pools[1].nodes] == ["arc-a", "arc-b"]
