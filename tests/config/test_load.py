"""Loading as a whole: the demo, defaults, real files, records, and no text that breaks it."""

# ruff: noqa: E501 - the tables hold whole messages
from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakedev.config.keys import CONFIGURATION
from fakedev.config.load import load
from fakedev.fleet.fleet import Fleet
from fakedev.schema.files import MAX_BYTES, Files, Unreadable
from fakedev.schema.places import ConfigurationError, Place
from tests.support.configurations import MemoryFiles, loaded, pool, problems
from tests.support.documents.configuration import sections_in
from tests.support.examples import examples
from tests.support.paths import DATA


def test_the_demo() -> None:
    """Without a configuration: 8 H100s as dcgm, loopback and sockets, workloads on some devices."""
    found = load(None, Files(environ={"XDG_RUNTIME_DIR": "/run/user/7"}))
    (dgx,) = found.fleet.pools
    assert ([node.name for node in dgx.nodes], dgx.device_type.name, dgx.devices_per_node) == (
        ["dgx-0"],
        "h100-sxm5-80gb",
        8,
    )
    assert found.identities["dgx"].title == "dcgm@4.8.2"
    assert [(each.listen.display, each.serve) for each in found.web] == [
        ("127.0.0.1:9400", "all"),
        ("/run/user/7/fakedev/metrics.sock", "all"),
    ]
    assert [each.listen.display for each in found.workloads.listen] == ["/run/user/7/fakedev/workload.sock"]
    assert found.workloads.listen[0].allow == {"workloads", "faults", "clock"}
    assert len(found.fleet.base) == 4
    assert all(each.pod and each.namespace and each.container for each in found.fleet.base)
    assert (found.speed, found.epoch_is_start, found.notes) == (1, True, ())


def test_the_demo_leaves_a_device_idle() -> None:
    """Work is on seven of the eight devices, and they do different things."""
    fleet = Fleet(load(None, Files()).fleet)
    for _ in range(20):
        fleet.advance()
    usage = fleet.usage_ratio
    assert usage[7] == 0
    assert usage[:4].min() > 0.9
    assert 0 < usage[6] < usage[4] < 0.5


def test_defaults_of_a_configuration_that_says_nothing() -> None:
    """An empty mapping is the demo without its workloads."""
    demo, empty = load(None, Files()), loaded("{}")
    assert (empty.fleet.pools, empty.web, empty.workloads) == (demo.fleet.pools, demo.web, demo.workloads)
    assert empty.fleet.base == ()
    assert loaded("fleet:\n").fleet == loaded("{}\n# nothing\n").fleet == empty.fleet


@pytest.mark.parametrize("text", ["{}", "version: 1"])
def test_an_empty_configuration(text: str) -> None:
    """A note says what it means; a file without anything is an error, see test_empty_files."""
    (note,) = loaded(text).notes
    assert note.endswith("f.yaml:1: is empty: the nodes of the built-in demo are simulated, without its workloads")
    assert loaded(text, overrides=["fleet.seed=7"]).notes == ()


@pytest.mark.parametrize(
    ("more", "free"),
    [
        ("", None),
        ("workloads: {base: [{name: a, devices: 'dgx-0/[0-3]', profile: 10}]}", None),
        ("workloads: {base: [{name: a, devices: 'dgx-0/[0-4]', profile: 0}]}", 3),
        ("workloads: {base: [{name: a, devices: all, profile: 10}]}", 0),
    ],
)
def test_the_boards_of_a_living_cluster(more: str, free: int | None) -> None:
    """A note says how few it has, where base work has most: it would seem to stand still."""
    notes = loaded(f"fleet: {{cluster: research, pools: [{{name: dgx, nodes: 1, device: h100}}]}}\n{more}\n").notes
    assert [f"cluster: its jobs have {free} of 8 boards" in note for note in notes] == [True] * (free is not None)
    divided = "fleet: {cluster: research, pools: [{name: dgx, nodes: 1, device: h100, mig: [7g.80gb]}]}"
    assert ["its jobs have 0 of 8" in note for note in loaded(divided).notes] == [True]


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"RUNTIME_DIRECTORY": "/run/fakedev:/run/other", "XDG_RUNTIME_DIR": "/x"}, "/run/fakedev/"),
        ({"XDG_RUNTIME_DIR": "/run/user/7"}, "/run/user/7/fakedev/"),
        ({"TMPDIR": "/var/tmp"}, "/var/tmp/fakedev-"),
    ],
)
def test_the_default_socket_folder(environ: dict[str, str], folder: str) -> None:
    """The service's own folder, the user's, or a private one for each user."""
    assert loaded("{}", environ=environ).workloads.listen[0].listen.path.startswith(folder)


def test_what_a_full_configuration_becomes() -> None:
    """Every section reaches its place."""
    text = """
fleet:
  seed: 42
  tick: 250ms
  speed: 0
  epoch: 2026-01-31T12:00:00Z
  pools:
    - name: a
      nodes: 3
      node-name: "a{03}.example"
      device: t4
      devices-per-node: 2
      devices: [{index: 1, uuid: 927D7444-B45A-7C49-8402-5E686E46A026, pci: "0000:1b:00.0", file: card9, labels: {rack: r}}]
      labels: {row: "7"}
web:
  - {listen: "*:9400", serve: all, token: 0123456789, names: [GPU.example.org], pool: a}
  - {listen: ./a.sock, mode: 0640, group: fakedev}
  - {listen: 9401, identity: dcgm}
workloads:
  listen: [{listen: "*:9998", open: true}, {listen: 9997, allow: [clock], node: a000.example}]
  max-connections: 7
  message-timeout: 150ms
  base:
    - {name: w, devices: ["a001.example/card9", "a002.example/0"], profile: [[10, 1, 5], {load: 20}], limits: {power: 60}, run-time-limit: 5m, ttl: none, pod: p}
log: {level: debug, format: json}
"""
    found = loaded(text)
    (pool_a,) = found.fleet.pools
    assert [node.name for node in pool_a.nodes] == ["a000.example", "a001.example", "a002.example"]
    assert pool_a.devices[1].facts == {
        "uuid": "927d7444-b45a-7c49-8402-5e686e46a026",
        "pci_address": "0000:1b:00.0",
        "device_file": "card9",
        "rack": "r",
    }
    assert pool_a.facts == {"row": "7"}
    assert (found.fleet.seed, found.fleet.tick_seconds, found.speed) == (42, 0.25, 0)
    assert (found.fleet.epoch_seconds, found.epoch_is_start) == (1769860800, False)
    first, second, third = found.web
    assert (first.token, first.names, first.pool, first.listen.local) == ("0123456789", {"gpu.example.org"}, "a", False)
    assert (second.listen.path, second.listen.mode, second.listen.group) == ("/conf/a.sock", 0o640, "fakedev")
    assert third.identity == found.identities["a"]
    ports = found.workloads
    assert [(each.allow, each.node) for each in ports.listen] == [({"workloads"}, ""), ({"clock"}, "a000.example")]
    assert (ports.max_connections, ports.message_seconds) == (7, 0.15)
    (base,) = found.fleet.base
    assert (base.limits, base.run_time_limit_seconds, base.ttl_seconds, base.pod) == ((("power", 60.0),), 300, 0, "p")
    assert (found.logging.level, found.logging.format) == ("debug", "json")


def test_names_of_an_endpoint() -> None:
    """The names that Host may have; a port or a path is no part of them. The key of 0.1 works on, with a note."""
    found = loaded("version: 1\nweb: [{listen: 9400, names: [A.example., b], hosts: [c]}]\n")
    assert found.web[0].names == {"a.example", "b", "c"}
    (note,) = found.notes
    assert "hosts: is called names: now" in note
    for name in ("a:80", "a/b", "a b", "*", "http://a", ""):
        with pytest.raises(ConfigurationError, match="is no host name"):
            loaded(f"version: 1\nweb: [{{listen: 9400, names: ['{name}']}}]\n")


@pytest.mark.parametrize(
    "profile",
    ["98:1:0", '"98:1:0"', "[98:1:0]", "[[98, 1]]", "[[98, 1, 0]]", "[{load: 98, fluctuation: 1}]", '"${P:-98:1:0}"'],
)
def test_ways_to_write_a_profile(profile: str) -> None:
    found = loaded(f"workloads: {{base: [{{name: x, profile: {profile}}}]}}")
    assert found.fleet.base == loaded("workloads: {base: [{name: x, profile: 98:1:0}]}").fleet.base


def test_words_that_yaml_takes_for_something_else() -> None:
    text = "workloads: {base: [{name: on, profile: 1:0:0, pod: no, namespace: 2024-01-01, container: 'null'}]}"
    (base,) = loaded(text).fleet.base
    assert (base.name, base.pod, base.namespace, base.container) == ("on", "no", "2024-01-01", "null")


def test_variables() -> None:
    """Set, unset with a default, empty; a literal dollar; numbers may come from quotes."""
    text = 'fleet: {seed: "${SEED}", pools: [{name: "${NAME:-a}", labels: {x: "$${SEED} $5 ${EMPTY:-e}"}}]}'
    files = MemoryFiles({"f.yaml": text}, {"SEED": "9", "EMPTY": "", "OTHER": "x"})
    found = load("/conf/f.yaml", files)
    assert (found.fleet.seed, found.fleet.pools[0].name) == (9, "a")
    assert found.fleet.pools[0].facts == {"x": "${SEED} $5 e"}
    assert files.variables == {"SEED": "9", "EMPTY": ""}


def test_an_empty_variable_is_no_token() -> None:
    """A token that the environment leaves empty does not open the door."""
    assert problems('web: [{listen: "*:9400", token: "${TOKEN:-}"}]') == [
        "f.yaml:1: *:9400 lets other machines change things: give it a token, or serve: metrics, or allow it by open: true"
    ]


@pytest.mark.parametrize(
    ("keys", "serve", "token"),
    [
        ('listen: "*:9400", token: "${TOKEN:-none}"', "metrics", None),
        ('listen: "*:9400", token: none, open: true', "all", None),
        ("listen: 9400, token: none", "all", None),
        ('listen: "*:9400", token: none, serve: exporter', "exporter", None),
        ('listen: "*:9400", token: "${GIVEN:-none}"', "all", "0123456789"),
    ],
)
def test_an_address_without_a_token_by_intent(keys: str, serve: str, token: str | None) -> None:
    """token: none: what other machines could change is not served to them."""
    files = MemoryFiles({"f.yaml": f"web: [{{{keys}}}]"}, {"GIVEN": "0123456789"})
    (found,) = load("/conf/f.yaml", files).web
    assert (found.serve, found.token) == (serve, token)


def test_a_record_serves_the_same_again() -> None:
    """What was read is remembered, and is all that is needed to load it again."""
    path = str(DATA / "f.yaml")
    text = pool(device="original-device.json", devices="original-devices.json", identity="original-identity.json")
    text += 'log: {level: "${LEVEL}"}\n'
    first = Files(environ={"LEVEL": "warn", "HOME": "/x"})
    before = load(path, first, text=text)
    again = Files(first.texts, first.variables)
    after = load(path, again, text=text)
    assert (after.fleet, after.identities, after.web) == (before.fleet, before.identities, before.web)
    assert after.logging == before.logging
    assert again.texts == first.texts
    assert first.variables == {"LEVEL": "warn"}
    with pytest.raises(Unreadable, match="not in the record"):
        again.read("/etc/passwd")


def test_a_record_of_the_demo() -> None:
    first = Files()
    before = load(None, first)
    assert load(None, Files(first.texts, first.variables)).fleet == before.fleet
    catalog = ("devices/h100-sxm5-80gb", "fields/dcgm", "identities/dcgm")
    assert sorted(first.texts) == [*(f"catalog:{name}.yaml" for name in catalog), "demo:demo.yaml"]


# -- real files ---------------------------------------------------------------------------------------


def faults(path: Path) -> list[str]:
    """The problems of a real file."""
    try:
        load(str(path), Files())
    except ConfigurationError as error:
        return str(error).splitlines()
    return []


def test_files_that_are_no_configuration(tmp_path: Path) -> None:
    """Missing, a folder, not UTF-8, too large: each is one problem."""
    assert faults(tmp_path / "none.yaml") == [f"{tmp_path}/none.yaml: no such file"]
    assert faults(tmp_path) == [f"{tmp_path}: is a folder, not a file"]
    os.mkfifo(tmp_path / "pipe")
    refused = "is a named pipe, a socket or a device: to read it could wait for ever"
    assert faults(tmp_path / "pipe") == [f"{tmp_path}/pipe: {refused}"]
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"version: 1\nlog:\n  level: gr\xfcn\n")
    assert faults(latin) == [f"{latin}:3: is not UTF-8 text (byte 0xfc)"]
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (MAX_BYTES + 1))
    assert faults(large) == [f"{large}: is larger than 4 MiB"]
    assert faults(tmp_path / "a\0b") == [f"{tmp_path}/a\0b: cannot be read: embedded null byte"]


def test_marks_and_line_ends_of_other_systems(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfversion: 1\r\nlog:\r\n  level: debug\r\n")
    assert load(str(path), Files()).logging.level == "debug"
    path.write_bytes(b'\xef\xbb\xbf{\r\n\t"log": {\r\n\t\t"level": "debu"}}\r\n')
    assert faults(path) == [
        f"{path}:3: log.level: must be one of debug, info, warn, error, not 'debu'; did you mean debug?"
    ]


def test_empty_files(tmp_path: Path) -> None:
    """An empty YAML file, or one of comments, is a mistake unless all comes from options; an empty JSON is no JSON."""
    path = tmp_path / "f.yaml"
    for content in ("", "# version: 1\n", "---\n"):
        path.write_text(content)
        (problem,) = faults(path)
        assert problem.startswith(f"{path}:1: is empty: give version: 1 and what differs from the defaults")
        assert load(str(path), Files(), ["fleet.seed=7"]).fleet.seed == 7
        assert load(str(path), Files(environ={"FAKEDEV__FLEET__SEED": "8"})).fleet.seed == 8
    path.write_text("{}")
    assert faults(path) == []
    path = tmp_path / "f.json"
    path.write_bytes(b" \n")
    assert faults(path) == [f"{path}:2: is empty"]


def test_an_epoch_in_seconds(tmp_path: Path) -> None:
    """It is a number or a text in both forms; other texts of JSON are in quotes."""
    for name, text in product(("f.yaml", "f.json"), ("1800000000", '"1800000000"')):
        path = tmp_path / name
        path.write_text(f'{{"fleet": {{"epoch": {text}}}}}')
        assert load(str(path), Files()).fleet.epoch_seconds == 1_800_000_000
    (tmp_path / "f.json").write_text('{"fleet": {"epoch": true}}')
    assert "must be a time in quotes" in faults(tmp_path / "f.json")[0]


def test_relative_paths_begin_at_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that a file names are beside it, wherever the program was started; problems name them as the user does."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "f.yaml").write_text(pool(device="./dev.yaml") + "x: 1\n")
    (tmp_path / "conf" / "dev.yaml").write_text("name: x\nranges: {power: [3, 2]}\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError) as caught:
        load("conf/f.yaml", Files())
    places = [(problem.file, problem.line) for problem in caught.value.problems]
    assert ("conf/f.yaml", 4) in places
    assert ("conf/dev.yaml", 2) in places


def test_the_configuration_as_json() -> None:
    text = '{\n\t"fleet": {"seed": 3, "pools": [{"name": "a"}]},\n\t"web": ["127.0.0.1:9400"]}'
    assert loaded(text, name="f.json").fleet == loaded(text).fleet
    assert loaded(text).fleet.seed == 3
    assert problems('{"fleet": {"pools": [{"name": 5}]}}', name="f.json") == [
        "f.json:1: fleet.pools.0.name: must be a pool name in quotes, not '5'"
    ]


# -- no text breaks it --------------------------------------------------------------------------------


def words() -> st.SearchStrategy[str]:
    """Keys of the configuration, and what is near to values."""
    keys = [key.name for section in sections_in(CONFIGURATION) for key in section.keys]
    values = ["98:1:0", "1s", "9400", "'*:9400'", "/a", "h100", "dcgm", "null", "on", "1e999", "-1", "${X}", "*a", "&a", "<<", "!!x"]
    return st.sampled_from(keys + values)


PIECES = st.lists(
    words() | st.sampled_from([": ", "\n", "\n  ", "\n    - ", "[", "]", "{", "}", ", ", '"', "#", "\t"]), max_size=40
)


@pytest.mark.slow
@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.text(max_size=80) | PIECES.map("".join), st.sampled_from(["f.yaml", "f.json"]))
def test_no_text_breaks_loading(text: str, name: str) -> None:
    """For any file: a configuration or ConfigurationError, with a line for each problem."""
    try:
        loaded(text, name=name)
    except ConfigurationError as error:
        assert error.problems
        assert all(problem.text and "\n" not in str(Place(problem.file, problem.line)) for problem in error.problems)


def test_a_configuration_with_the_key_of_a_scenario() -> None:
    """What stands beside that key would not be used: a fleet of one's own would be the demo's."""
    assert problems("fleet: {seed: 7}\nscenario: {for: 10m}\n") == [
        "f.yaml:1: fleet: is not used beside scenario: move it into config"
    ]
