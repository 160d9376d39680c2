"""The image of the Dockerfile on a base made of Debian's packages, and containers of it, by podman.

Nothing comes from a registry of images: mmdebstrap makes a Debian with Python, which is imported under the name of the
Dockerfile's base. Images and containers are in a folder of their own, which ends with the tests.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tests.support.paths import ROOT

PROGRAMS: Final = ("podman", "runc", "mmdebstrap", "apt-get")
IMAGE: Final = "fakedev"
#: The stage of the Dockerfile with the variables and the user of that image, and the name of ours.
DCGM_FAKE: Final = "dcgm-fake-gpu-exporter"
_MINUTES: Final = 60
#: Settings of the host that pip needs in the container, as a proxy's certificate.
_HOST_FILES: Final = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
_CONTAINERS: Final = """
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "file"
"""


class NoEngine(Exception):
    """Containers cannot run on this machine, with the reason."""


class Engine:
    """podman with images and containers of its own.

    :raises NoEngine: where a container of the base does not run.
    """

    def __init__(self) -> None:
        missing = [name for name in PROGRAMS if shutil.which(name) is None]
        if missing:
            raise NoEngine(f"there is no {', '.join(missing)}")
        if os.geteuid() != 0:
            raise NoEngine("only root can make the base image")
        self._folder = Path(tempfile.mkdtemp(prefix="fakedev-"))
        files = {name: self._folder / f"{name}.conf" for name in ("containers", "storage")}
        own = {"CONTAINERS_CONF": str(files["containers"]), "CONTAINERS_STORAGE_CONF": str(files["storage"])}
        self._environment = {**os.environ, **own}
        files["containers"].write_text(_CONTAINERS, encoding="utf-8")
        for driver in ("overlay", "vfs"):
            folders = f'runroot = "{self._folder}/run"\ngraphroot = "{self._folder}/storage"\n'
            files["storage"].write_text(f'[storage]\ndriver = "{driver}"\n{folders}', encoding="utf-8")
            if self.podman("info", check=False).returncode == 0:
                break
        try:
            self._make_base()
            self.podman("run", "--rm", "--network=none", _base_name(), "true")
        except (OSError, subprocess.SubprocessError) as error:
            self.remove()
            reason = getattr(error, "stderr", "") or str(error)
            raise NoEngine(f"a base image cannot be made and run: {reason.strip()[-400:]}") from None

    def podman(
        self, *arguments: str, check: bool = True, timeout: float = _MINUTES
    ) -> subprocess.CompletedProcess[str]:
        """Run podman to its end.

        :raises subprocess.CalledProcessError: when it fails, unless ``check`` is false.
        """
        return subprocess.run(
            ["podman", "--log-level=fatal", *arguments], env=self._environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=timeout, check=check,
        )  # fmt: skip

    def build(self) -> None:
        """Build the image of the Dockerfile.

        :raises AssertionError: with the end of what the build printed.
        """
        mounts = [f"--volume={name}:{name}:ro" for name in _HOST_FILES if os.path.exists(name)]
        for image, target in ((IMAGE, ()), (DCGM_FAKE, (f"--target={DCGM_FAKE}",))):
            command = ("build", "--isolation=chroot", "--format=docker", f"--tag={image}", *target, *mounts, str(ROOT))
            done = self.podman(*command, check=False, timeout=15 * _MINUTES)
            assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]

    @contextmanager
    def service(self) -> Iterator[str]:
        """The address of Docker's API, with these images.

        :raises NoEngine: where podman cannot publish a port.
        """
        tried = self.podman("run", "--rm", "--publish=127.0.0.1::9400", _base_name(), "true", check=False)
        if tried.returncode != 0:
            raise NoEngine(f"podman cannot publish a port: {tried.stderr.strip()[-400:]}")
        path = self._folder / "podman.sock"
        command = ["podman", "--log-level=fatal", "system", "service", "--time=0", f"unix://{path}"]
        with subprocess.Popen(command, env=self._environment, stdin=subprocess.DEVNULL) as process:
            try:
                while not path.exists():
                    with suppress(subprocess.TimeoutExpired):
                        raise NoEngine(f"podman's service ended with {process.wait(0.05)}")
                yield f"unix://{path}"
            finally:
                process.terminate()

    def remove(self) -> None:
        """Remove all containers, images and files."""
        self.podman("system", "reset", "--force", check=False, timeout=15 * _MINUTES)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _make_base(self) -> None:
        lines = Path("/etc/os-release").read_text("utf-8").splitlines()
        release = dict(line.split("=", 1) for line in lines if "=" in line)
        if release.get("ID") != "debian":
            raise OSError("mmdebstrap needs the keys of Debian, and this is another system")
        suite = release["VERSION_CODENAME"]
        printed = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)", "Created-By: Packages"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        mirror = [line.split()[1] for line in printed.splitlines() if line.split()[:1] == [suite]][:1]
        archive = self._folder / "base.tar"
        command = ["mmdebstrap", "--mode=root", "--variant=minbase", "--include=python3,python3-venv,ca-certificates"]
        # Nobody needs these files after a power failure.
        command += ["--dpkgopt=force-unsafe-io", '--aptopt=Acquire::Languages "none"', suite, str(archive), *mirror]
        subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=15 * _MINUTES, check=True
        )
        self.podman("import", str(archive), _base_name(), timeout=15 * _MINUTES)
        archive.unlink()


def _base_name() -> str:
    """The base that the Dockerfile names, in the form in which podman looks for it."""
    (line, *_) = [line for line in (ROOT / "Dockerfile").read_text("utf-8").splitlines() if line.startswith("FROM ")]
    return f"docker.io/library/{line.split()[1]}"


class Container:
    """A container without a network but its own loopback interface, where programs of the image ask it.

    :param command: arguments of the image, or its command with ``is_entry_point``, as manifests of Kubernetes give it.
    :param options: of ``podman run``.
    """

    def __init__(
        self, engine: Engine, command: Sequence[str], options: Sequence[str], *, is_entry_point: bool = False,
        image: str = IMAGE,
    ) -> None:  # fmt: skip
        entry_point = [f"--entrypoint={json.dumps(list(command))}"] if is_entry_point else []
        words = () if is_entry_point else tuple(command)
        network = () if any(option.startswith("--network") for option in options) else ("--network=none",)
        self._engine = engine
        self.id = engine.podman("run", "--detach", *network, *options, *entry_point, image, *words).stdout.strip()

    def curl(self, url: str, *options: str, body: object = None) -> str:
        """The status and then the answer of a request; the first ones are repeated until somebody listens."""
        sent = [] if body is None else ["--header", "Content-Type: application/json", "--data", json.dumps(body)]
        patience = ("--max-time", "20", "--retry", "60", "--retry-delay", "1", "--retry-all-errors")
        command = ("curl", "--silent", "--globoff", "--write-out", "%{stderr}%{http_code}", *patience)
        done = self.execute(*command, *sent, *options, url)
        return f"{done.stderr[-3:]} {done.stdout}"

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program in the container to its end."""
        return self._engine.podman("exec", self.id, *command, check=False, timeout=15 * _MINUTES)

    def state(self) -> dict[str, Any]:
        """Its number of process, exit code and so on."""
        found: dict[str, Any] = json.loads(self._engine.podman("inspect", self.id).stdout)[0]["State"]
        return found

    def health(self) -> int:
        """The exit code of the image's health check."""
        return self._engine.podman("healthcheck", "run", self.id, check=False).returncode

    def stop(self) -> int:
        """Send SIGTERM, wait until it has ended, and return its exit code; 137 after 40 s."""
        self._engine.podman("stop", "--time=40", self.id)
        return int(self.state()["ExitCode"])

    def wait(self) -> int:
        """Wait until it has ended by itself, and return its exit code."""
        return int(self._engine.podman("wait", self.id).stdout)

    def output(self) -> str:
        """What it printed."""
        done = self._engine.podman("logs", self.id)
        return done.stdout + done.stderr
