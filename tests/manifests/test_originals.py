"""The manifests that take the place of those of the original programs."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from fakedev.commands.dropins.backend import BackendOptions
from fakedev.commands.dropins.client import ClientOptions
from fakedev.commands.dropins.exporter import ExporterOptions
from fakedev.commands.dropins.frontend import FrontendOptions
from tests.support.kube.manifests import Object, objects_of, of_kind, pod_spec, printed_by, problems_of
from tests.support.paths import ROOT

pytestmark = pytest.mark.real

ORIGINALS: Final = sorted(path.parent for path in (ROOT / "etc" / "originals").glob("*/kustomization.yaml"))
#: What reads the arguments of each program.
OPTIONS: Final[dict[str, Any]] = {
    "/fakedev-exporter": ExporterOptions,
    "/tester-frontend": FrontendOptions,
    "/tester-client": ClientOptions,
    "/tester-backend": lambda: BackendOptions({}, "host"),
}


def containers(objects: list[Object]) -> list[Object]:
    """All containers but those that prepare a pod."""
    pods = [each for each in objects if each["kind"] in ("Deployment", "DaemonSet")]
    return [container for pod in pods for container in pod_spec(pod)["containers"]]


@pytest.mark.parametrize("folder", ORIGINALS, ids=lambda folder: folder.name)
def test_a_base(folder: Any) -> None:
    """Objects of the right form, our image, and programs that it has, with arguments that they take."""
    objects = objects_of(printed_by("kubectl", "kustomize", str(folder)))
    assert [problem for each in objects for problem in problems_of(each)] == []
    found = containers(objects)
    assert {each["image"] for each in found} == {"fakedev:latest"}
    links = re.findall(r"(?:fakedev|tester)-\w+", (ROOT / "Dockerfile").read_text("utf-8").replace("$name", "name"))
    assert {"fakedev-name", "tester-name"} <= set(links)
    for container in found:
        if command := container.get("command"):
            options = OPTIONS[command[0]]()
            options.flags.parse(command[1:])
        security = container["securityContext"]
        assert (security["runAsNonRoot"], security["readOnlyRootFilesystem"]) == (True, True)
        assert (security["allowPrivilegeEscalation"], security["capabilities"]) == (False, {"drop": ["ALL"]})


@pytest.mark.parametrize("folder", ORIGINALS, ids=lambda folder: folder.name)
def test_services_reach_the_pods(folder: Any) -> None:
    """Each port of a Service is one of the pods that it selects."""
    objects = objects_of(printed_by("kubectl", "kustomize", str(folder)))
    services = of_kind(objects, "Service")
    assert services
    for service in services:
        (selected,) = [
            each for each in objects if each["kind"] in ("Deployment", "DaemonSet")
            and service["spec"]["selector"].items() <= each["spec"]["template"]["metadata"]["labels"].items()
        ]  # fmt: skip
        named = {port["name"]: port["containerPort"] for each in containers([selected]) for port in each["ports"]}
        assert {port["targetPort"]: port["port"] for port in service["spec"]["ports"]} == named


def test_the_files_of_the_exporter_are_in_the_image() -> None:
    """Those that its arguments name, below the image's root."""
    folder = ROOT / "etc" / "originals" / "fakedev-exporter"
    (exporter,) = containers(objects_of(printed_by("kubectl", "kustomize", str(folder))))
    named = [word.partition("=")[2] for word in exporter["command"] if word.endswith(".json")]
    assert len(named) == 3
    assert all((ROOT / "etc" / "image" / name).is_file() for name in named)
