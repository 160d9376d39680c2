"""fakedev-workload: from its command line to the request on the wire, all in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.commands.go_flags import FlagError
from fakedev.commands.workload_message import beyond_the_original, run_message, unknown_to_the_original
from fakedev.commands.workload_options import Order, WorkloadOptions, find_files
from fakedev.config.peer_address import Address, parse_address
from fakedev.sim.profile import parse_profile
from fakedev.sim.spec import FOREVER, Activity, WorkloadSpec
from fakedev.sim.workload_fields import workload_from_fields
from fakedev.wire.json_lines import parse_json_line
from fakedev.wire.workload_verbs import WORKLOAD_GRAMMAR

ORIGINALS = Path(__file__).resolve().parents[2] / "shared" / "facts" / "originals"

CARDS = {"/dev/dri/card*": ["/dev/dri/card10", "/dev/dri/card0"]}


def order(
    *arguments: str,
    environ: Mapping[str, str] | None = None,
    files: Mapping[str, Sequence[str]] | None = None,
    texts: Mapping[str, str] | None = None,
) -> Order:
    """What these arguments ask for, where these files and variables are."""
    matches = CARDS if files is None else files

    def read(path: str) -> str:
        if texts is None or path not in texts:
            raise FileNotFoundError(2, "No such file or directory", path)
        return texts[path]

    options = WorkloadOptions(environ or {}, lambda pattern: list(matches.get(pattern, [])), read)
    return options.order(options.flags.parse(arguments))


def refusal(*arguments: str, **surroundings: Any) -> str:
    """Why these arguments are refused."""
    with pytest.raises(FlagError) as caught:
        order(*arguments, **surroundings)
    return str(caught.value)


def read_by_the_original(message: bytes) -> dict[str, Any] | None:
    """What the original's Go server makes of a message; None when it refuses it.

    One read of 1024 bytes; names in any letter case; unknown ones skipped; integers only; a byte
    that comes after the read is a lost connection.
    """
    if len(message) > 1024:
        return None
    document = {key.lower(): value for key, value in json.loads(message).items()}
    seen: dict[str, Any] = {
        "Name": document.get("name", ""),
        "Repeat": document.get("repeat", 0),
        "Devices": document.get("devices", []),
        "Limits": document.get("limits"),
        "Profile": [],
    }
    for entry in document["profile"]:
        folded = {key.lower(): value for key, value in entry.items()}
        activity = tuple(folded.get(name, 0) for name in ("load", "fluctuation", "seconds"))
        if not all(isinstance(number, int) for number in activity):
            return None
        load, fluctuation, _ = activity
        if load - fluctuation < 0 or load + fluctuation > 100:
            return None
        seen["Profile"].append(activity)
    return seen


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
    assert asked.workload == WorkloadSpec("n", ("card0", "card1"), parse_profile("10:1:300,0:0:5"), 0)
    assert asked.address == Address("s", path="s")


def test_no_matching_file_is_an_error() -> None:
    """An empty match is refused, and named."""
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
    """Names in any letter case; what the file says wins, what it does not say stands."""
    text = '{"NAME": "f", "repeat": 3, "profile": [{"Load": 10, "SECONDS": 5}], "Devices": ["card7"]}'
    asked = order("-name", "o", "-pod", "p", "-json", "w.json", texts={"w.json": text})
    assert asked.workload == WorkloadSpec("f", ("card7",), (Activity(10, 0, 5),), 3, pod="p")


def test_missing_numbers_are_0_and_missing_fields_the_options() -> None:
    """An activity of the file does not inherit the option's fluctuation; repeat keeps the option's."""
    text = '{"Name": "load-10", "Profile": [{"Load": 10}], "Repeat": null}'
    asked = order("-repeat", "4", "-json", "w.json", texts={"w.json": text})
    assert asked.workload.activities == (Activity(10, 0, FOREVER),)
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
    """A key that means nothing is told and does no harm, at the top and in an activity."""
    text = '{"Nmae": "x", "Profile": [{"Load": 5, "Power": 3}]}'
    asked = order("-json", "w.json", texts={"w.json": text})
    assert asked.remarks == ("w.json: 'Nmae' means nothing here", "w.json: 'Power (activity 1)' means nothing here")
    assert asked.workload.activities == (Activity(5, 0, FOREVER),)


def test_a_list_alone() -> None:
    """The list of a schedule of utilization may be the whole file, and then runs once."""
    workload = order("-json", "w.json", texts={"w.json": '[{"time": "1m", "Utilization": 80}]'}).workload
    assert (workload.activities, workload.repeat) == ((Activity(80, 0, 60),), 1)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (None, "-json: cannot read w.json: No such file or directory"),
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
    """Each way to get it wrong is told; an optional group that was not there gives no index."""
    files = {"/dev/dri/card*": ["/dev/dri/card", "/dev/dri/card0"]}
    text = refusal(*arguments, files=files)
    assert text.startswith("-devregex")
    assert part in text


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
    """The option at fault is told with the reason."""
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
    """A UNIX path, an abstract name, or host and port."""
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "host:", "host:x", "host:0", "host:65536", "::1:99", "a\0b"])
def test_what_is_no_address(text: str) -> None:
    """Neither path nor host with a port."""
    with pytest.raises(ValueError, match="is no socket"):
        parse_address(text)


def test_patterns_as_go_reads_them(tmp_path: Path) -> None:
    """Hidden files match, and [^0] is any but 0."""
    for name in ("card0", "card1", ".card2"):
        (tmp_path / name).touch()
    assert sorted(find_files(f"{tmp_path}/*card?")) == [f"{tmp_path}/{name}" for name in (".card2", "card0", "card1")]
    assert find_files(f"{tmp_path}/card[^0]") == [f"{tmp_path}/card1"]


# On the wire

numbers = st.integers(0, 100).flatmap(
    lambda load: st.tuples(st.just(load), st.integers(0, min(load, 100 - load)), st.integers(1, 10**6))
)
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(
    lambda text: text == text.strip() and "," not in text
)


@given(names, st.lists(numbers, min_size=1, max_size=5), st.lists(names, min_size=1, max_size=5), st.integers(0, 9))
def test_one_message_for_both_servers(
    name: str, activities: list[tuple[int, int, int]], devices: list[str], repeat: int
) -> None:
    """Whatever the workload, both servers read the same bytes as just this workload."""
    workload = WorkloadSpec(name, tuple(devices), tuple(Activity(*map(float, a)) for a in activities), repeat, pod="p")
    message = run_message(workload)
    assert message.endswith(b"}\n")
    assert message.count(b"\n") == 1
    fields = json.loads(message)
    assert (fields.pop("op"), fields.pop("id")) == ("run", 1)
    assert workload_from_fields(fields) == workload
    seen = read_by_the_original(message)
    assert (seen is None) == bool(beyond_the_original(workload, message))
    if seen is not None:
        assert (seen["Name"], seen["Repeat"], seen["Devices"]) == (name, repeat, devices)
        assert seen["Profile"] == activities


def test_the_message_is_compact() -> None:
    """Just these bytes: zeros and empty fields are left out, but for the repeat, whose 0 has a meaning."""
    assert order("-devnames", "card0", "-repeat", "0").message == (
        b'{"op":"run","id":1,"name":"Workload","repeat":0,"profile":[{"load":98,"fluctuation":1}],"devices":["card0"]}\n'
    )


def test_all_fields_reach_the_server() -> None:
    """Our server reads back the workload with its pod, limits and run-time limit."""
    asked = order("-node=n", "-pod=p", "-namespace=s", "-container=c", "-limit=memory=1GiB", "-runtime-limit=1.5")
    request = parse_json_line(asked.message.rstrip(), WORKLOAD_GRAMMAR)
    assert request.verb == "run"
    assert workload_from_fields(request.arguments) == asked.workload
    assert unknown_to_the_original(asked.workload) == ["limits", "run-time limit", "node", "pod"]


def test_functions_and_metrics_reach_the_server() -> None:
    """Typed as on the port; what the file says wins; the original would take none of it."""
    arguments = ("-activity=ramp(5,90):5:60,steps(10,40):0:9", "-use", "memory=sine(50%,30%,90s)", "-use=pcie-tx=1GB/s")
    text = '{"metrics": {"memory": "40GiB"}, "measured-frequency": 990}'
    asked = order(*arguments, "-json=f", "-measured-capability=2", texts={"f": text})
    request = parse_json_line(asked.message.rstrip(), WORKLOAD_GRAMMAR)
    assert workload_from_fields(request.arguments) == asked.workload
    assert [(use.metric, use.activities) for use in asked.workload.uses] == [
        ("memory_used_bytes", (Activity(40 * 2**30),)),
        ("pcie_tx_bytes_per_second", (Activity(1e9),)),
    ]
    assert (asked.workload.measured_frequency_mhz, asked.workload.measured_capability) == (990, 2)
    assert beyond_the_original(asked.workload, asked.message) == [
        "its loads change within an activity, and the original takes numbers"
    ]
    assert unknown_to_the_original(asked.workload) == ["metrics", "scaling"]
    assert read_by_the_original(asked.message) is None


def test_what_the_original_would_refuse_is_known() -> None:
    """1024 bytes are its limit, to the byte and with the newline; and it takes no fractions."""
    short = order("-devnames", "card0", "-name", "x")
    room = 1024 - len(short.message)
    fits = order("-devnames", "card0", "-name", "x" * (room + 1))
    assert len(fits.message) == 1024
    assert beyond_the_original(fits.workload, fits.message) == []
    longer = order("-devnames", "card0", "-name", "x" * room, "-repeat", "10")
    assert len(longer.message) == 1024
    over = order("-devnames", "card0", "-name", "x" * (room + 1), "-repeat", "10")
    assert "1025 bytes" in beyond_the_original(over.workload, over.message)[0]
    fraction = order("-activity", "10:1:1.5")
    assert "fractions" in beyond_the_original(fraction.workload, fraction.message)[0]
    assert read_by_the_original(over.message) is read_by_the_original(fraction.message) is None
