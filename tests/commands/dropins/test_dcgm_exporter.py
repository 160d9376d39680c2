"""fakedev-dcgm-exporter: the flags and variables of two exporters' manifests, and what they mean."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import UUID

import pytest

from fakedev.commands.dropins.dcgm_exporter import OPTIONS, PROFILES, DcgmOptions, Option, main
from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.exporters.identity import SharedDevices
from fakedev.exporters.samples import read_page
from fakedev.nvml.smi.boards import read_snapshot
from fakedev.runtime.settings import Logging
from fakedev.schema.files import Files
from fakedev.schema.go_flags import FlagError
from tests.support.application import application


def meant(*arguments: str, **environ: str) -> tuple[str, dict[str, str]]:
    """The configuration, and the files that are made for it."""
    options = DcgmOptions(environ)
    text, identity = options.texts(options.flags.parse(arguments))
    return text, {"/fakedev-dcgm-exporter/identity.yaml": identity}


def configured(*arguments: str, **environ: str) -> Configuration:
    """The same, loaded."""
    text, made = meant(*arguments, **environ)
    return load(None, Files(environ=environ, made=made), text=text)


def labels_of(configuration: Configuration) -> list[str]:
    """The names of the labels of every line."""
    return [label.name for label in configuration.identities["gpus"].labels]


def pod_labels(configuration: Configuration) -> list[str]:
    """The labels of pods, without those of resource claims."""
    return [label for label in labels_of(configuration) if not label.startswith(("dra_", "vgpu"))][-3:]


def test_nothing_said() -> None:
    """Eight H100s on all interfaces at 9400, the exporter's own counters, no pods, numbers that stay for 30 s."""
    configuration = configured(NODE_NAME="worker-3")
    (pool,) = configuration.fleet.pools
    assert (pool.nodes[0].name, pool.devices_per_node, pool.device_type.name) == ("worker-3", 8, "h100-sxm5-80gb")
    (web,) = configuration.web
    assert (web.listen.display, web.serve) == ("*:9400", "exporter")
    identity = configuration.identities["gpus"]
    assert identity.hold_seconds == 30
    assert "pod" not in labels_of(configuration)
    assert len(identity.families) == 25


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [
        (["-a", ":9500", "-c", "1000", "-k"], {}),
        (["--address=:9500", "--collect-interval=1000", "--kubernetes"], {}),
        (
            [],
            {
                "DCGM_EXPORTER_LISTEN": ":9500",
                "DCGM_EXPORTER_INTERVAL": "1000",
                "DCGM_EXPORTER_KUBERNETES": "true",
            },
        ),
        (["-a=:9500", "-c=1000", "-k=true"], {"DCGM_EXPORTER_LISTEN": ":1", "DCGM_EXPORTER_INTERVAL": "7"}),
    ],
)
def test_flags_and_variables(arguments: list[str], environ: Mapping[str, str]) -> None:
    """Short, long, or as variables; a flag wins."""
    configuration = configured(*arguments, **environ)
    assert configuration.web[0].listen.display == "*:9500"
    assert configuration.identities["gpus"].hold_seconds == 1
    assert pod_labels(configuration) == ["container", "namespace", "pod"]


def test_no_hostname() -> None:
    """Of either version."""
    assert "Hostname" not in labels_of(configured("-n"))
    assert "hostname" in labels_of(configured("--identity", "dcgm@4.8.3"))
    assert "hostname" not in labels_of(configured("-n", "--identity", "dcgm@4.8.3"))


def test_collectors(tmp_path: Path) -> None:
    """A file of the user's; those of the image are built in where they are not there."""
    (tmp_path / "my.csv").write_text("DCGM_FI_DEV_GPU_TEMP, gauge, Heat.\n")
    for arguments, environ in (
        (["-f", str(tmp_path / "my.csv")], {}),
        ([], {"DCGM_EXPORTER_COLLECTORS": str(tmp_path / "my.csv")}),
    ):
        (family,) = configured(*arguments, **environ).identities["gpus"].families
        assert (family.name, family.help) == ("DCGM_FI_DEV_GPU_TEMP", "Heat.")
    of_the_image = configured("-f", "/etc/dcgm-exporter/dcp-metrics-included.csv")
    assert len(of_the_image.identities["gpus"].families) == 25


def test_fake_exporter(tmp_path: Path) -> None:
    """A variable of dcgm-fake-gpu-exporter brings its names, its labels that count from 1, and its profiles."""
    socket = str(tmp_path / "metrics.sock")
    environ = {"NUM_FAKE_GPUS": "3", "GPU_PROFILES": "static, wave", "EXPORTER_PORT": "9401", "GPU_START_INDEX": "5"}
    environ |= {"METRIC_UPDATE_INTERVAL": "10", "ENABLE_UDS": "true", "UDS_SOCKET_PATH": socket}
    configuration = configured(**environ)
    assert [web.listen.display for web in configuration.web] == ["*:9401", socket]
    assert [workload.name for workload in configuration.fleet.base] == ["static-0", "wave-1", "static-2"]
    assert configuration.identities["gpus"].hold_seconds == 10
    text, made = meant(**environ)
    text = text.replace("*:9401", "127.0.0.1:9401").replace(json.dumps(socket), '"127.0.0.1:9402"')
    text = text.replace('"mode": "666",\n', "")
    with application(text, files=Files(environ={}, made=made)) as app:
        app.tick(20)
        page = app.get("/metrics").body.decode()
        assert re.findall(r"^dcgm_gpu_temp\{(.*)\} \d+\.0$", page, re.MULTILINE) == [
            f'gpu="{number}",device="nvidia{number}"' for number in (5, 6, 7)
        ]
        health = app.get("/health")
        assert (health.status, health.body) == (200, b"OK\n")
        assert app.get("/api/v1/nodes").status == 404
        assert app.get("/metrics", place=1).body.decode() == page


def test_the_socket_waits_for_a_request() -> None:
    """The original answers a peer that sends nothing, and closes; this is HTTP, which closes when it is asked to."""
    text, made = meant(NUM_FAKE_GPUS="1")
    with application(text.replace("*:9400", "127.0.0.1:9400"), files=Files(environ={}, made=made)) as app:
        peer = app.http()
        assert peer.send(b"") == b""
        assert b" 200 OK\r\n" in peer.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert not peer.closed
        peer.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert peer.closed


def test_every_profile_can_be() -> None:
    """All names of the original make a workload that is taken."""
    for name in PROFILES:
        assert configured(METRIC_PROFILE=name).fleet.base[0].name == f"{name}-0"
        assert configured(GPU_PROFILES=name.title()).fleet.base[0].name == f"{name}-0"


@pytest.mark.slow
def test_profiles_with_faults() -> None:
    """They make real faults, as the profiles of that name do: some values are NaN, some series are missing."""
    text, made = meant(METRIC_PROFILE="faulty", NUM_FAKE_GPUS="8")
    with application(text.replace("*:9400", "127.0.0.1:9400"), files=Files(environ={}, made=made)) as app:
        told = []
        for _ in range(6):
            app.tick(30)
            page = app.get("/metrics").body.decode()
            told.append(re.findall(r"^dcgm_gpu_temp\{.*\} (.*)$", page, re.MULTILINE))
        assert {"NaN"} < {value for values in told for value in values}
        assert {len(values) for values in told} > {8}


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({"METRIC_PROFILE": "statik"}, "no profile 'statik'; there are static, stable"),
        ({"NUM_FAKE_GPUS": "many"}, "NUM_FAKE_GPUS: 'many' is no whole number of 1 to 1024"),
        ({"EXPORTER_PORT": "70000"}, "EXPORTER_PORT: '70000' is no whole number of 1 to 65535"),
        ({"ENABLE_UDS": "perhaps"}, "ENABLE_UDS: 'perhaps' is neither true nor false"),
        ({"DCGM_EXPORTER_INTERVAL": "30s"}, "DCGM_EXPORTER_INTERVAL: '30s' is no whole number"),
        ({"DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE": "0"}, "--xid-count-window-size: 0 milliseconds is not within 1 to"),
        ({"DCGM_EXPORTER_KUBERNETES": "yes"}, "DCGM_EXPORTER_KUBERNETES: 'yes' is neither true nor false"),
    ],
)
def test_values_that_cannot_be(environ: Mapping[str, str], reason: str) -> None:
    """The variable and the reason are named."""
    with pytest.raises(FlagError, match=re.escape(reason)):
        meant(**environ)


def test_what_is_not_used_is_told() -> None:
    """Flags and variables of the exporter that have no effect here; there is no error, so that manifests work."""
    options = DcgmOptions(
        {"DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE": "uid", "DCGM_EXPORTER_LISTEN": ":1", "DCGM_EXPORTER_NEW": "1",
         "NVIDIA_RESOURCE_NAMES": "nvidia.com/a100", "HOME": "/"}
    )  # fmt: skip
    values = options.flags.parse(["-m", "default:metrics", "--fake-gpus", "--web-read-timeout=5s", "-k"])
    assert options.notes(values) == [
        "--configmap-data is not used",
        "--fake-gpus is not used",
        "--web-read-timeout is not used",
        "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE is not used",
        "DCGM_EXPORTER_NEW is not used",
        "NVIDIA_RESOURCE_NAMES is not used",
    ]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_each_option(option: Option) -> None:
    """By its long and its short flag, with a value of its kind, and by its variable."""
    value = {"configmap-data": "a:b", "log-format": "json", "address": ":1"}.get(option.name, "/x.csv")
    if isinstance(option.default, int):
        value = "true" if isinstance(option.default, bool) else "77"
    for name in filter(None, (option.name, option.short)):
        dashes = "-" if name == option.short else "--"
        assert meant(f"{dashes}{name}={value}") == meant(**{option.variable: value})
    assert option.text or meant(**{option.variable: value}) == meant()


def test_windows_of_its_own_families(tmp_path: Path) -> None:
    """As flags or variables; samples are taken at the interval."""
    rows = ("DCGM_EXP_XID_ERRORS_COUNT, counter, X.", "DCGM_EXP_CLOCK_EVENTS_COUNT, counter, C.")
    (tmp_path / "my.csv").write_text("\n".join(rows))
    configuration = configured(
        "-f", str(tmp_path / "my.csv"), "-c", "10000", "-x", "60000",
        DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE="120000",
    )  # fmt: skip
    assert {tally.name for tally in configuration.fleet.tallies} > {
        "xid_events_within_60s", "clock_gpu_idle_samples_within_120s_every_10s",
    }  # fmt: skip


def test_names_of_old() -> None:
    """-o names labels as version 1.x did; -rbmn writes dashes into the model's name."""
    assert labels_of(configured("-o", "-k"))[1] == "uuid"
    assert pod_labels(configured("-o", "-k")) == ["container_name", "pod_namespace", "pod_name"]
    text, made = meant("-rbmn", "-a", "127.0.0.1:9400")
    with application(text, files=Files(environ={}, made=made)) as app:
        assert 'modelName="NVIDIA-H100-80GB-HBM3"' in app.get("/metrics").body.decode()


def test_pods_that_share() -> None:
    """With virtual GPUs a row for each."""
    assert configured("-k", KUBERNETES_VIRTUAL_GPUS="true").identities["gpus"].shared_devices is SharedDevices.EACH


def test_the_log() -> None:
    """In the format that is asked for."""
    assert configured("--log-format", "json", "--debug").logging == Logging("debug", "json")


def test_fake_exporter_with_newer_names() -> None:
    """dcgm-fake-gpu-exporter's later versions have the names of dcgm-exporter; its GPUs count on."""
    text, made = meant("--identity", "dcgm@4.8.2", "-a", "127.0.0.1:9400", NUM_FAKE_GPUS="2", GPU_START_INDEX="3")
    with application(text, files=Files(environ={}, made=made)) as app:
        page = app.get("/metrics").body.decode()
        assert re.findall(r'^DCGM_FI_DEV_GPU_TEMP\{gpu="(\d)",UUID="GPU-.*device="nvidia(\d)"', page, re.MULTILINE) == [
            ("3", "3"), ("4", "4"),
        ]  # fmt: skip


def test_labels_of_the_newer_names() -> None:
    """UUIDs have the form of real ones, all boards are of one product, and each field is what its name says."""
    text, made = meant("--identity", "dcgm-fake@2026.01", "-a", "127.0.0.1:9400", NUM_FAKE_GPUS="3")
    with application(text, files=Files(environ={}, made=made)) as app:
        app.tick(5)
        page = app.get("/metrics").body.decode()
    uuids = re.findall(r'^DCGM_FI_DEV_GPU_TEMP\{.*UUID="(.*?)"', page, re.MULTILINE)
    assert len({UUID(uuid.removeprefix("GPU-")) for uuid in uuids}) == 3
    assert set(re.findall(r'modelName="(.*?)"', page)) == {"Tesla V100-SXM2-16GB"}
    values = [
        {name: float(value) for name, value in re.findall(rf'^DCGM_FI_DEV_(\w+){{gpu="{gpu}".*}} (.*)$', page, re.M)}
        for gpu in (1, 2, 3)
    ]
    for each in values:
        assert 0 < each["FB_USED"] < each["FB_USED"] + each["FB_FREE"] < each["FB_TOTAL"] == 16384
        assert each["MEM_CLOCK"] < each["SM_CLOCK"] <= 1530


def test_the_file_for_dcgmi(tmp_path: Path) -> None:
    """It is written where the variable says, from which dcgmi and nvidia-smi read."""
    file = tmp_path / "nvml.map"
    text, made = meant(NUM_FAKE_GPUS="3", FAKEDEV_NVML_FILE=str(file))
    with application(text.replace("*:9400", "127.0.0.1:9400"), files=Files(environ={}, made=made)):
        assert len(read_snapshot({"FAKEDEV_NVML_FILE": str(file)}).boards) == 3
    assert configured(NUM_FAKE_GPUS="3").nvml is None


def test_refusals_of_the_fake_exporter() -> None:
    """Other paths are 404, other methods 405; HEAD is GET without the page; a query changes nothing."""
    text, made = meant(NUM_FAKE_GPUS="1")
    with application(text.replace("*:9400", "127.0.0.1:9400"), files=Files(environ={}, made=made)) as app:
        head = app.ask("HEAD", "/metrics")
        assert (head.status, head.body) == (200, b"")
        assert int(head.headers["content-length"]) == len(app.get("/metrics").body)
        assert app.get("/metrics?other=1").body == app.get("/metrics").body
        assert [app.ask(method, "/metrics").status for method in ("POST", "PUT", "DELETE")] == [405] * 3
        assert [app.get(path).status for path in ("/", "//metrics", "/metrics/", "/api/v1/nodes")] == [404] * 4


@pytest.mark.slow
@pytest.mark.parametrize(("profile", "degrees"), [("faulty", 85), ("chaos", 75)])
def test_rules_of_the_fake_exporter(profile: str, degrees: int) -> None:
    """Its alert rules look for 75 and 85 degrees, and for 280 W: sixteen boards for half an hour."""
    text, made = meant(METRIC_PROFILE=profile, NUM_FAKE_GPUS="16")
    heat, power = [0.0], [0.0]
    text = text.replace('"fleet": {', '"fleet": {"tick": "5s",')
    with application(text.replace("*:9400", "127.0.0.1:9400"), files=Files(environ={}, made=made)) as app:
        for _ in range(30):
            app.tick(12)
            page = app.get("/metrics").body.decode()
            heat += map(float, re.findall(r"^dcgm_gpu_temp\{.*\} ([\d.]+)$", page, re.MULTILINE))
            power += map(float, re.findall(r"^dcgm_power_usage\{.*\} ([\d.]+)$", page, re.MULTILINE))
    assert max(power) <= 280
    assert [limit for limit in (50, 75, 85) if max(heat) > limit][-1] == degrees


def test_beside_the_metrics() -> None:
    """A page at / that leads to them, /health in the exporter's word, and the headers of both."""
    text, made = meant("-a", "127.0.0.1:9400")
    with application(text, files=Files(environ={}, made=made)) as app:
        start, health, metrics = map(app.get, ("/", "/health", "/metrics"))
        assert (start.status, start.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert b"<h1>GPU Exporter</h1>" in start.body
        assert b'href="./metrics"' in start.body
        assert (health.status, health.body, health.headers["x-registry-available"]) == (200, b"OK", "true")
        assert [each.headers["x-content-type-options"] for each in (start, health, metrics)] == ["nosniff"] * 3
        assert "x-registry-available" not in metrics.headers


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    """Only the version is printed."""
    assert main(["--version"]) == 0
    assert re.fullmatch(r"fakedev-dcgm-exporter version \S+ \(simulated\)\n", capsys.readouterr().out)


def test_mistakes_end_the_program(
    capsys: pytest.CaptureFixture[str], misuse: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 2, and a line that says why."""
    monkeypatch.setattr(os, "environ", {"METRIC_PROFILE": "x"})
    assert "no profile 'x'" in misuse(main)
    monkeypatch.setattr(os, "environ", {})
    assert main(["-f", "/nope.csv"]) == 2
    assert re.match(r"fakedev-dcgm-exporter: [a-z ]+/nope\.csv: ", capsys.readouterr().err)  # no file that we made


def row_of(family: str, *arguments: str) -> dict[str, str]:
    """The labels of the first row of a family, with pods."""
    text, made = meant("-k", "-a", "127.0.0.1:9400", *arguments)
    with application(text, files=Files(environ={}, made=made)) as app:
        page = read_page(app.get("/metrics").body.decode())
    return dict(page.families[family].samples[0].labels)


def test_uids_and_labels_of_pods() -> None:
    """As options; names of labels are those that Prometheus allows; an expression is found in the original name."""
    temperature = "DCGM_FI_DEV_GPU_TEMP"
    assert not {"pod_uid", "job_name"} & row_of(temperature).keys()
    assert re.fullmatch(r"[0-9a-f-]{36}", row_of(temperature, "--kubernetes-enable-pod-uid")["pod_uid"])
    labels = row_of(temperature, "--kubernetes-enable-pod-labels")
    assert (labels["app_kubernetes_io_name"], labels["job_name"]) == ("train", "train-0")
    assert list(labels).index("job_name") < list(labels).index("container")
    some = ("--kubernetes-enable-pod-labels", "--kubernetes-pod-label-allowlist-regex=^job-,^none$")
    assert {"job_name", "app_kubernetes_io_name"} & row_of(temperature, *some).keys() == {"job_name"}
    assert "job_name" not in labels_of(configured("--kubernetes-enable-pod-labels"))


def test_an_expression_that_is_none() -> None:
    """An error that names the option."""
    with pytest.raises(FlagError, match=r"--kubernetes-pod-label-allowlist-regex: .*unterminated"):
        meant("--kubernetes-pod-label-allowlist-regex=(")


def test_a_folder_of_jobs() -> None:
    """Followed at the interval of collection, with a row for each job."""
    configuration = configured("--hpc-job-mapping-dir", "/run/jobs", "-c", "10000", NODE_NAME="n")
    assert configuration.hpc_jobs is not None
    assert (configuration.hpc_jobs.folder, configuration.hpc_jobs.node) == ("/run/jobs", "n")
    assert configuration.hpc_jobs.every_seconds == 10
    assert configuration.identities["gpus"].shared_devices is SharedDevices.EACH
