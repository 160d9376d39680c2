"""fakedev-workload: what its command line and its file ask for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fakedev.commands.workload import options
from fakedev.commands.workload.options import find_files
from fakedev.fleet.spec.profiles import profile_from
from fakedev.fleet.spec.workload_spec import FOREVER, Activity, WorkloadSpec
from fakedev.schema.go_flags import FlagError
from fakedev.schema.peer_addresses import Address, parse_address
from tests.support.fleet.workload_orders import order, read_by_the_original
from tests.support.paths import ORIGINALS


def refusal(*arguments: str, **surroundings: Any) -> str:
    with pytest.raises(FlagError) as caught:
        order(*arguments, **surroundings)
    return str(caught.value)


# The original's options


def test_defaults_are_the_originals() -> None:
    """Without arguments: the original's name, activity, repeat, devices and socket."""
    asked = order()
    assert asked.workload == WorkloadSpec("Workload", ("card0", "card10"), (Activity(98, 1, FOREVER),), 1)
    assert str(asked.address) == asked.address.path == "/tmp/fakedev-exporter"
    assert asked.remarks == ()


def test_every_option_of_the_original() -> None:
    """Name, repeat, activity, device names and socket arrive where they belong."""
    asked = order(
        "-name", "n", "--repeat=0", "-activity", "10:1:300,0:0:5", "--devnames", "card0, card1", "-socket", "s"
    )
    assert asked.workload == WorkloadSpec("n", ("card0", "card1"), profile_from("10:1:300,0:0:5"), 0)
    assert asked.address == Address("s", path="s")


def test_no_matching_file_is_an_error() -> None:
    assert refusal("-devices", "/none*") == "-devices: no file matches '/none*'"


@pytest.mark.parametrize(
    ("names", "maximum", "index", "expected"),
    [
        ("cardINDEX", "4", "6", ("card2",)),
        ("cardINDEX,dgx-INDEX/INDEX", "100", "6", ("card6", "dgx-6/6")),
        ("card1", "4", "6", ("card1",)),
        ("cardINDEX", "0", "6", ("cardINDEX",)),
    ],
)
def test_index_of_the_job(names: str, maximum: str, index: str, expected: tuple[str, ...]) -> None:
    """INDEX becomes the Job's completion index modulo the maximum, and stays when there is none."""
    asked = order("-devnames", names, "-max-index", maximum, environ={"JOB_COMPLETION_INDEX": index})
    assert asked.workload.devices == expected


def test_index_of_the_job_is_needed() -> None:
    """A missing or strange index, or a negative maximum, is refused."""
    assert "JOB_COMPLETION_INDEX is not set" in refusal("-devnames", "cardINDEX", "-max-index", "4")
    for index in ("x", "-1", "²"):
        text = refusal("-devnames", "c", "-max-index", "4", environ={"JOB_COMPLETION_INDEX": index})
        assert "no whole number" in text
    assert "-max-index: -1 is negative" in refusal("-devnames", "cardINDEX", "-max-index=-1")


@pytest.mark.parametrize(
    ("activity", "part"),
    [
        ("101:0:0", "load 101"),
        ("10:11:0", "fluctuation 11"),
        ("60:50:0", "is over 100"),
        ("-1:0:0", "load -1"),
        ("1:1:-1", "-1 seconds"),
        ("nan:0:0", "finite"),
        ("a:b:c", "no number"),
        ("", "''"),
        ("1:1:0,2:1:3", "last activity only"),
    ],
)
def test_activities_are_held_to_the_servers_rules(activity: str, part: str) -> None:
    """What the server would refuse is refused before it is asked, under the option's name."""
    text = refusal("-activity", activity)
    assert text.startswith("-activity: ")
    assert part in text


# The JSON file


def test_fields_of_the_file_win() -> None:
    """Names in any letter case; the values of the file win, options that it does not give remain."""
    text = '{"NAME": "f", "repeat": 3, "profile": [{"Load": 10, "SECONDS": 5}], "Devices": ["card7"]}'
    asked = order("-name", "o", "-pod", "p", "-json", "w.json", texts={"w.json": text})
    assert asked.workload == WorkloadSpec("f", ("card7",), (Activity(10, 0, 5),), 3, pod="p")


def test_missing_numbers_are_0_and_missing_fields_the_options() -> None:
    """An activity of the file does not inherit the option's fluctuation; repeat keeps the option's."""
    text = '{"Name": "load-10", "Profile": [{"Load": 10}], "Repeat": null}'
    asked = order("-repeat", "4", "-json", "w.json", texts={"w.json": text})
    assert tuple(asked.workload.activities) == (Activity(10, 0, FOREVER),)
    assert asked.workload.repeat == 4


def test_limits_of_file_and_options_join() -> None:
    """Limits of both places hold; for one metric the file's."""
    text = '{"Limits": {"power": 1, "memory": 2}}'
    asked = order("-limit", "power=9", "-limit", "temperature=80", "-json", "w.json", texts={"w.json": text})
    assert dict(asked.workload.limits) == {"power": 1, "memory": 2, "temperature": 80}


def test_devices_of_the_file_need_no_match() -> None:
    """Files are not looked for when the JSON names the devices."""
    asked = order("-json", "w.json", files={}, texts={"w.json": '{"devices": ["card1"]}'})
    assert asked.workload.devices == ("card1",)


def test_unknown_keys_are_remarked() -> None:
    """An unknown key is reported and does no harm, at the top and in an activity."""
    text = '{"Nmae": "x", "Profile": [{"Load": 5, "Power": 3}]}'
    asked = order("-json", "w.json", texts={"w.json": text})
    assert asked.remarks == ("w.json: 'Nmae' means nothing here", "w.json: 'Power (activity 1)' means nothing here")
    assert tuple(asked.workload.activities) == (Activity(5, 0, FOREVER),)


def test_a_list_alone() -> None:
    """The list of a schedule of utilization may be the whole file, and then runs once."""
    workload = order("-json", "w.json", texts={"w.json": '[{"time": "1m", "Utilization": 80}]'}).workload
    assert (tuple(workload.activities), workload.repeat) == ((Activity(80, 0, 60),), 1)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (None, "-json: cannot read w.json: no such file or folder"),
        ("{", "-json: w.json is not JSON"),
        ("5", "-json: w.json is not a JSON object"),
        ("[]", "w.json: profile: "),
        ('[{"time": "1h"}]', "w.json: profile: activity 1: utilization is missing"),
        ("[" * 100_000, "-json: w.json is"),
        ('{"profile": [{"load": NaN}]}', "NaN is no number"),
        ('{"name": ""}', "w.json: name: a workload needs a name"),
        ('{"name": 7}', "w.json: name: must be a text"),
        ('{"repeat": -1}', "w.json: repeat: "),
        ('{"profile": []}', "w.json: profile: "),
        ('{"profile": [{"load": 60, "fluctuation": 50}]}', "w.json: profile: activity 1: "),
        ('{"profile": ["x"]}', "w.json: profile: activity 1"),
        ('{"devices": []}', "w.json: devices: "),
        ('{"limits": [1]}', "w.json: limits: "),
        ('{"limits": {"power": "x"}}', "w.json: limits: "),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error(text: str | None, part: str) -> None:
    """A missing file too, which the original passed over; the file and the field are named."""
    assert part in refusal("-json", "w.json", texts={} if text is None else {"w.json": text})


@pytest.mark.skipif(not ORIGINALS.is_dir(), reason="the original's example files are not beside the checkout")
@pytest.mark.parametrize("name", ["load-10-exact", "load-10", "load-40-loop-60s", "load-50-30s"])
def test_the_originals_own_files(name: str) -> None:
    """Its example files are taken as they are, and its server would take what we make of them."""
    text = (ORIGINALS / f"{name}.json").read_text()
    asked = order("-json", "w.json", texts={"w.json": text})
    seen = read_by_the_original(asked.message)
    written = json.loads(text)
    assert seen is not None
    assert seen["Name"] == written["Name"]
    assert seen["Profile"] == [
        tuple(entry.get(key, 0) for key in ("Load", "Fluctuation", "Seconds")) for entry in written["Profile"]
    ]


# Our own options


@pytest.mark.parametrize(
    ("expression", "paths", "expected"),
    [
        (r"renderD(\d+)", ["/dev/dri/renderD129", "/dev/dri/renderD128"], ("card128", "card129")),
        (r"^nvidia(\d+)$", ["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia1"], ("card0", "card1")),
        (r"card(\d+)/", ["/sys/class/drm/card3/device"], ("card3",)),
        (r"(\d+)$", ["/dev/dri/card1", "/dev/dri/alias01"], ("card1",)),
    ],
)
def test_device_index_from_the_matches(expression: str, paths: list[str], expected: tuple[str, ...]) -> None:
    """The first group is the index; files without it are left out; a device counts once."""
    asked = order("-devices", "x", "-devregex", expression, files={"x": paths})
    assert asked.workload.devices == expected


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["-devregex", "card("], "is no regular expression"),
        (["-devregex", "card"], "has no group"),
        (["-devregex", "(card)"], "'card'"),
        (["-devregex", r"card(\d+)?x?"], ""),
        (["-devregex", r"gpu(\d+)"], "is found in none of the 2 files"),
        (["-devregex", r"card(\d+)", "-devnames", "card1"], "with -devnames there are none"),
    ],
)
def test_expressions_that_give_no_index(arguments: list[str], part: str) -> None:
    """Each mistake is reported; an optional group that did not match gives no index."""
    files = {"/dev/dri/card*": ["/dev/dri/card", "/dev/dri/card0"]}
    text = refusal(*arguments, files=files)
    assert text.startswith("-devregex")
    assert part in text


def test_expressions_that_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's expressions may take exponential time: the search ends after some seconds of CPU time."""
    monkeypatch.setattr(options, "_MAX_SEARCH_SECONDS", 0.1)
    text = refusal("-devregex", r"card((\d+)+)$", files={"/dev/dri/card*": ["/dev/dri/card" + "1" * 60 + "x"]})
    assert text.startswith("-devregex: 'card((\\\\d+)+)$' takes too long")


def test_the_pod_comes_from_the_environment() -> None:
    """Node, pod, namespace and container have variables as defaults; an option wins, empty too."""
    environ = {"NODE_NAME": "n", "POD_NAME": "p", "POD_NAMESPACE": "s", "CONTAINER_NAME": "c"}
    asked = order(environ=environ)
    workload = asked.workload
    assert (workload.node, workload.pod, workload.namespace, workload.container) == ("n", "p", "s", "c")
    assert asked.remarks == ("Node 'n' is from NODE_NAME; -node= for none",)
    asked = order("-node=", "-pod", "q", environ=environ)
    workload = asked.workload
    assert asked.remarks == ()
    assert (workload.node, workload.pod, workload.namespace, workload.container) == ("", "q", "s", "c")


def test_limits_and_run_time() -> None:
    """Limits are numbers or sizes; the run-time limit a duration or seconds."""
    workload = order("-limit", "memory=1GiB", "-limit=power=250.5", "-runtime-limit", "1m30s").workload
    assert workload.limits == (("memory", 2**30), ("power", 250.5))
    assert workload.run_time_limit_seconds == 90
    assert order("-runtime-limit", "2.5").workload.run_time_limit_seconds == 2.5


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["-limit", "memory"], "no METRIC=VALUE"),
        (["-limit", "=3"], "no METRIC=VALUE"),
        (["-limit", "memory=x"], "-limit: memory: 'x' is no size"),
        (["-limit", "memory=nan"], "-limit: memory: 'nan' is no size"),
        (["-limit", "power=40GiB"], "-limit: the limit of 'power' must be a number, in the unit that it is shown in"),
        (["-use", "memory"], "no METRIC=VALUE:FLUCTUATION:SECONDS"),
        (["-use", "memory=lots"], "-use: memory: activity 1: 'lots' is no size"),
        (["-use", "memry=1GiB"], "-use: 'memry' is no metric that workloads bring; did you mean memory?"),
        (["-use", "memory=1GiB", "-use", "memory=2GiB"], "-use: memory is given twice"),
        (["-measured-frequency", "-5"], "-measured-frequency: must be a number"),
        (["-activity", "ramp(0,90)"], "-activity: activity 1: ramp: is spread over its activity"),
        (["-runtime-limit", "-1"], "negative"),
        (["-runtime-limit", "5x"], "no duration"),
        (["-name", ""], "-name: "),
        (["-pod", "x" * 1025], "-pod: "),
        (["-devnames", "card0,,card1"], "empty name"),
        (["-name", "\udcff"], "half a surrogate pair"),
        (["-devnames", ",".join(f"card{n}" for n in range(9000))], "bytes on the wire"),
    ],
)
def test_values_that_cannot_be_used(arguments: list[str], part: str) -> None:
    """The error has the wrong option and the reason."""
    assert part in refusal(*arguments)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("/run/x.sock", Address("/run/x.sock", path="/run/x.sock")),
        ("/run/x:1", Address("/run/x:1", path="/run/x:1")),
        ("@name:1", Address("@name:1", path="@name:1")),
        ("localhost:9997", Address("localhost:9997", host="localhost", port=9997)),
        (":9997", Address(":9997", host="localhost", port=9997)),
        ("[::1]:9997", Address("[::1]:9997", host="::1", port=9997)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "host:", "host:x", "host:0", "host:65536", "::1:99", "a\0b"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="is no socket"):
        parse_address(text)


def test_patterns_as_go_reads_them(tmp_path: Path) -> None:
    """Hidden files match, and [^0] is any but 0."""
    for name in ("card0", "card1", ".card2"):
        (tmp_path / name).touch()
    assert sorted(find_files(f"{tmp_path}/*card?")) == [f"{tmp_path}/{name}" for name in (".card2", "card0", "card1")]
    assert find_files(f"{tmp_path}/card[^0]") == [f"{tmp_path}/card1"]
