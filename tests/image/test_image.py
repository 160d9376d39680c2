"""The image: what it is for each command, as whom it runs, and what it needs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.support.paths import DOCUMENTS, ROOT
from tests.support.programs.containers import DCGM_FAKE, Container, Engine, NoEngine
from tests.support.programs.processes import require_program

pytestmark = [pytest.mark.real, pytest.mark.long]

Run = Callable[..., Container]
FAULT: Final = "http://localhost:9400/api/v1/faults"
FAN: Final = {"kind": "fan", "node": "dgx-0"}
METRICS: Final = "http://localhost:9400/metrics"
TOKEN: Final = "0123456789"
#: As Kubernetes runs a pod of the level "restricted", and Docker: podman alone would put another volume at /run.
RESTRICTED: Final = (
    "--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges",
    "--tmpfs=/run/fakedev",
)  # fmt: skip


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The engine with the image. Where no container runs the tests are skipped, also in continuous integration."""
    try:
        made = Engine()
    except NoEngine as reason:
        pytest.skip(f"the image is not built and not tried: {reason}")
    try:
        made.build()
        yield made
    finally:
        made.remove()


@pytest.fixture
def run(engine: Engine) -> Iterator[Run]:
    """Starts containers, which end with the test."""
    started = []

    def start(*command: str, options: tuple[str, ...] = (), **others: Any) -> Container:
        started.append(Container(engine, command, options, **others))
        return started[-1]

    yield start
    for container in reversed(started):
        engine.podman("rm", "--force", "--time=0", container.id)


def variables(**values: object) -> tuple[str, ...]:
    """Options that set variables."""
    return tuple(f"--env={name}={value}" for name, value in values.items())


def test_without_arguments(run: Run) -> None:
    """The demo: everybody reads its metrics, and nobody changes it by the network; it is PID 1 and ends on SIGTERM."""
    demo = run()
    status, _, page = demo.curl(METRICS).partition(" ")
    assert status == "200"
    assert page.count("\nDCGM_FI_DEV_GPU_TEMP{") == 8
    assert demo.curl(FAULT, body=FAN).startswith("404")
    assert demo.health() == 0
    assert demo.execute("id", "-u").stdout == "9400\n"
    assert demo.execute("fakedev", "status", "--url", "/run/fakedev/control.sock").returncode == 0
    assert demo.execute("sh", "-c", "command -v gcc cc pip").stdout == ""
    assert demo.stop() == 0


@pytest.mark.parametrize("user", ["0:0", "1000680000:0", "65534:65534"])
def test_any_user(user: str, run: Run) -> None:
    """With a root file system that it cannot write and without capabilities; control needs the token."""
    demo = run(options=(*RESTRICTED, f"--user={user}", *variables(FAKEDEV_TOKEN=TOKEN)))
    bearer = ("--header", f"Authorization: Bearer {TOKEN}")
    assert demo.curl(FAULT, body=FAN).startswith("401")
    assert demo.curl(FAULT, *bearer, body=FAN).startswith("201")
    assert demo.health() == 0
    assert demo.stop() == 0


def test_any_user_of_group_0_without_a_volume(run: Run) -> None:
    """As OpenShift starts an image: its folder for sockets is the group's."""
    demo = run(options=("--user=1000680000:0",))
    assert demo.curl(METRICS).startswith("200")
    assert demo.execute("fakedev", "status", "--url", "/run/fakedev/control.sock").returncode == 0


def test_open_control(run: Run) -> None:
    """FAKEDEV_OPEN=true: a test container that needs no token."""
    assert run(options=variables(FAKEDEV_OPEN="true")).curl(FAULT, body=FAN).startswith("201")


def test_the_example_for_testcontainers(engine: Engine) -> None:
    """The one in Python of doc/testing.md, over Docker's API."""
    pytest.importorskip("testcontainers")
    text = (DOCUMENTS / "testing.md").read_text(encoding="utf-8")
    (example,) = [match for match in re.findall(r"```py\n(.*?)```", text, re.DOTALL) if "DockerContainer" in match]
    try:
        with engine.service() as address:
            settings = {"RYUK_DISABLED": "true", "HOST_OVERRIDE": "127.0.0.1", "CONNECTION_MODE": "docker_host"}
            environment = {f"TESTCONTAINERS_{name}": value for name, value in settings.items()}
            done = subprocess.run(
                [sys.executable, "-c", example], env={**os.environ, **environment, "DOCKER_HOST": address},
                capture_output=True, text=True, timeout=300, check=False,
            )  # fmt: skip
    except NoEngine as reason:
        pytest.skip(f"the example is not tried: {reason}")
    assert done.returncode == 0, done.stderr[-2000:]


def test_ipv4_alone(run: Run) -> None:
    """Where the kernel has no IPv6."""
    demo = run(options=("--sysctl=net.ipv6.conf.all.disable_ipv6=1",))
    assert demo.curl("http://127.0.0.1:9400/metrics").startswith("200")
    assert demo.health() == 0


def test_ipv6_alone(run: Run) -> None:
    """Where no interface has an address of IPv4."""
    demo = run()
    namespace = ["nsenter", "--net", f"--target={demo.state()['Pid']}"]
    subprocess.run([*namespace, require_program("ip"), "-4", "address", "flush", "dev", "lo"], check=True)
    assert demo.curl("http://[::1]:9400/metrics").startswith("200")
    assert demo.health() == 0


def test_a_mounted_configuration(run: Run, tmp_path: Path) -> None:
    """In the place of the demo."""
    file = tmp_path / "fakedev.yaml"
    pool = "{name: a, nodes: 2, device: mi300x, devices-per-node: 4, identity: amd-device-metrics}"
    file.write_text(f'version: 1\nfleet: {{pools: [{pool}]}}\nweb: [{{listen: "*:9400", serve: metrics}}]\n', "utf-8")
    own = run(options=(f"--volume={file}:/etc/fakedev/fakedev.yaml:ro",))
    assert own.curl(METRICS).count("\ngpu_health{") == 8


def test_the_stack(run: Run) -> None:
    """The service of our compose file, with its command and its files."""
    folder = ROOT / "etc" / "stack"
    service = yaml.safe_load((folder / "compose.yaml").read_text(encoding="utf-8"))["services"]["fakedev"]
    volumes = tuple(f"--volume={folder}/{volume}" for volume in service["volumes"])
    stack = run(*service["command"], options=volumes)
    assert stack.curl("http://localhost:9400/sd").count('"targets"') == 4
    assert stack.curl("http://localhost:9400/-/metrics").startswith("200")


def test_programs_by_name(run: Run) -> None:
    """Each program, and what is no program: 127 as a shell ends."""
    assert "usage" in (shown := run("fakedev-client", "-help")).output().lower() or shown.wait() == 0
    wrong = run("no-such-program")
    assert wrong.wait() == 127
    assert "cannot start no-such-program: no such file or folder" in wrong.output()


class TestDcgmFake:
    """dcgm-fake-gpu-exporter: by its variables, its command and its health check."""

    def test_by_variables(self, run: Run, tmp_path: Path) -> None:
        """Four GPUs with profiles, and the socket in a folder that another container has, too."""
        shared = f"--volume={tmp_path}:/var/run/dcgm"
        tmp_path.chmod(0o777)
        options = variables(NUM_FAKE_GPUS=4, GPU_PROFILES="wave,spike,stable,degrading", METRIC_UPDATE_INTERVAL=5,
                            ENABLE_UDS="true", FAKEDEV_NVML_FILE="/var/run/dcgm/nvml.map")  # fmt: skip
        exporter = run(options=(*options, shared, "--read-only", "--cap-drop=all"))
        page = exporter.curl(METRICS)
        assert page.count("\ndcgm_gpu_temp{") == 4
        assert exporter.execute("curl", "-f", "http://localhost:9400/health").stdout == "OK\n"
        assert exporter.health() == 0
        assert exporter.execute("dcgmi", "discovery", "-l").stdout.startswith("4 GPUs found.")
        assert exporter.execute("nvidia-smi", "-L").stdout.count("Tesla V100") == 4
        consumer = run("sleep", "60", options=(shared, "--user=1234:1234"))
        by_socket = consumer.curl("http://localhost/metrics", "--unix-socket", "/var/run/dcgm/metrics.sock")
        assert by_socket.count("\ndcgm_gpu_temp{") == 4
        assert exporter.stop() == 0

    def test_a_folder_of_root(self, run: Run, tmp_path: Path) -> None:
        """The image of the stage of this name runs as root, as the original does."""
        shared = f"--volume={tmp_path}:/var/run/dcgm"
        options = (shared, *variables(ENABLE_UDS="true"))
        refused = run(options=options)
        assert refused.wait() == 1
        assert "give another address with UDS_SOCKET_PATH" in refused.output()
        exporter = run(options=options, image=DCGM_FAKE)
        by_socket = exporter.curl("http://localhost/metrics", "--unix-socket", "/var/run/dcgm/metrics.sock")
        assert by_socket.count("\ndcgm_gpu_temp{") == 4

    def test_by_its_entry_point(self, run: Run) -> None:
        """Without a variable: four GPUs, on the port of EXPORTER_PORT."""
        exporter = run("/usr/local/bin/docker-entrypoint.sh", is_entry_point=True)
        assert exporter.curl(METRICS).count("\ndcgm_gpu_temp{") == 4
        assert run(image=DCGM_FAKE).curl(METRICS).count("\ndcgm_gpu_temp{") == 4
        other = run(options=variables(EXPORTER_PORT=9500, FAKEDEV_IDENTITY="dcgm-fake@2026.01"))
        assert other.curl("http://localhost:9500/metrics").count("\nDCGM_FI_DEV_GPU_TEMP{") == 4
        assert other.health() == 0


def test_dcgm_exporter(run: Run) -> None:
    """By the arguments of its manifests, which give no command, and by its program."""
    for exporter in (run("--kubernetes", "-c", "1000"), run("dcgm-exporter", "--kubernetes")):
        assert exporter.curl(METRICS).count('pod="train-') > 8
        assert exporter.health() == 0
        assert exporter.stop() == 0


def test_fakedev_exporter(run: Run, tmp_path: Path) -> None:
    """intel/fakedev-exporter: the commands of its DaemonSet and its Job, with the files of its image."""
    tmp_path.chmod(0o777)
    restricted = ("--user=65534", "--read-only", "--cap-drop=all")
    exporter = run(
        "/fakedev-exporter", "--socket", "/sockdir/socket", "--address", ":9999", "--count", "8", "--devlist",
        "devices/devlist.json", "--devtype", "devices/dg1-4905.json", "--identity", "identity/collectd.json",
        "--wl-all", "workloads/load-10-exact.json",
        options=(*restricted, f"--volume={tmp_path}:/sockdir"), is_entry_point=True,
    )  # fmt: skip
    page = exporter.curl("http://localhost:9999/metrics")
    assert page.count("\ncollectd_gpu_sysman_power_watts{") == 8
    assert 'pci_bdf="0000:0a:00.0"' in page
    workload = run(
        "/fakedev-workload", "--name", "load-10-5min", "--socket", "/sockdir/socket", "--devnames", "card0,card1",
        "--activity", "10:1:1", "--repeat", "1",
        options=(*restricted, f"--volume={tmp_path}/socket:/sockdir/socket"), is_entry_point=True,
    )  # fmt: skip
    assert workload.wait() == 0
    assert exporter.health() == 0
    assert exporter.stop() == 0


def test_scalability_tester(run: Run) -> None:
    """intel/k8s-device-scalability-tester: the commands of its three manifests, in one pod."""
    restricted = ("--user=65534", "--read-only", "--cap-drop=all")
    frontend = run(
        "/tester-frontend", "-caddr", ":9997", "-maddr", ":9998", "-waddr", ":9999", "-interval", "0", "-qmax", "9999",
        "sleep", "media", "bkc", options=(*restricted, "--user=65534:65534"), is_entry_point=True,
    )  # fmt: skip
    assert frontend.curl("http://localhost:9998/metrics").startswith("200")
    near = (*restricted, f"--network=container:{frontend.id}")
    backend = run(
        "/tester-backend", "-faddr", "localhost:9999", "-backoff", "0.2", "-name", "sleep", "-node-env", "NODE_NAME",
        "--", "sleep", "0.1", options=(*near, *variables(NODE_NAME="node-1")), is_entry_point=True,
    )  # fmt: skip
    client = run(
        "/tester-client", "-caddr", ":9996", "-faddr", "localhost:9997", "-name", "sleep", "-req-now", "2",
        "-req-max", "4", options=near, is_entry_point=True,
    )  # fmt: skip
    assert client.curl("http://localhost:9996/parallel?type=plain&value=3") == "200 3\n"
    retried = ("sh", "-c", "until curl -s localhost:9996/nodes | grep -q node-1; do :; done")
    assert client.execute("timeout", "60", *retried).returncode == 0
    assert [each.stop() for each in (client, backend, frontend)] == [0, 0, 0]


def test_topology_of_fake_gpu_operator(run: Run, tmp_path: Path) -> None:
    """A topology file of the operator: its topology server and the page of its exporter."""
    file = tmp_path / "topology.yml"
    file.write_text("nodePools: {default: {gpuProduct: Tesla-K80, gpuCount: 2, gpuMemory: 11441}}\n", encoding="utf-8")
    served = run("fakedev", "serve", "--topology", "/topology.yml", '--set=web=[{"listen":"*:8080","serve":"metrics"}]',
                 options=(f"--volume={file}:/topology.yml:ro",))  # fmt: skip
    assert served.curl("http://localhost:8080/metrics").count("\nDCGM_FI_DEV_GPU_UTIL{") == 2
    assert '"gpuProduct"' in served.curl("http://localhost:8080/topology")
