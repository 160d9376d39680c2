"""The configurations in the manifests are good, also with what the overlays and the chart add by the environment."""

from __future__ import annotations

import pytest

from tests.support.configurations import problems
from tests.support.kube.manifests import MANIFESTS, Object, objects_of, of_kind, pod_spec, yaml_text


def configuration(*path: str) -> str:
    """The text of fakedev.yaml in the ConfigMap of a file."""
    objects = objects_of(MANIFESTS.joinpath(*path).read_text(encoding="utf-8"))
    (text,) = [each["data"]["fakedev.yaml"] for each in of_kind(objects, "ConfigMap") if "fakedev.yaml" in each["data"]]
    return str(text)


def environment_of(objects: list[Object]) -> dict[str, str]:
    """What a component adds to the variables of the service, with a token as Kubernetes puts it in."""
    found = {}
    for patch in objects[0].get("patches", ()):
        item = objects_of(patch["patch"])[0]
        if item["kind"] == "Deployment" and "$patch" not in item:
            for each in pod_spec(item)["containers"][0]["env"]:
                if "value" in each:
                    found[each["name"]] = each["value"].replace("$(FAKEDEV_NODE_TOKEN)", "0123456789abcdef")
    return found


@pytest.mark.parametrize("path", [("mock.yaml",), ("base", "configuration.yaml"), ("examples", "pools.yaml")])
def test_a_configuration(path: tuple[str, ...]) -> None:
    """It is read without a problem."""
    assert problems(configuration(*path)) == []


@pytest.mark.parametrize("component", ["kubelets", "dra", "fake-gpu-operator"])
def test_a_component(component: str) -> None:
    """What it adds is known, and good, with the topology that it mounts."""
    added = environment_of(objects_of((MANIFESTS / "components" / component / "kustomization.yaml").read_text()))
    assert added
    mounted = {}
    if "FAKEDEV__TOPOLOGY" in added:
        (item, _) = objects_of((MANIFESTS / "components" / component / "topology.yaml").read_text())
        mounted = {f"/etc/fakedev-topology/{name}": text for name, text in item["data"].items()}
    assert problems(configuration("mock.yaml"), mounted, environ=added) == []


def test_the_values_of_the_chart() -> None:
    """The default of `configuration` is good."""
    (values,) = objects_of((MANIFESTS / "chart" / "values.yaml").read_text(encoding="utf-8"))
    assert problems(yaml_text(values["configuration"])) == []
