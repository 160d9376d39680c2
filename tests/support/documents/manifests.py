"""The manifests that are one file each: what kubectl makes of an overlay, with the comments of its parts.

The schema of the chart's values has that of the configuration in one of its lines. Run as a script it writes all of
them again. kubectl comes with the extra ``test``; kustomize itself drops comments.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import yaml

from fakedev.fleet.spec.fault_kinds import FAULT_FIELDS, KINDS, PARAMETERS
from fakedev.kubernetes.faults.device_fault import (
    GROUP,
    KIND,
    MAX_STEPS,
    MOUTHS,
    RESOURCE,
    SPEC_FIELDS,
    STEP_FIELDS,
    VERSION,
)
from tests.support.kube.manifests import CHART, MANIFESTS, Object, objects_of, rendered, texts_of
from tests.support.paths import ROOT

VALUES_SCHEMA: Final = CHART / "values.schema.json"
#: The definition of the kind DeviceFault, for kustomize and for the chart.
DEFINITIONS: Final = (MANIFESTS / "components" / "device-faults" / "definition.yaml", CHART / "files/devicefaults.yaml")
#: What editors show of a key, and validation does not need.
_TEXTS: Final = ("description", "default", "title", "$schema", "$id")

_MADE: Final = "# Made from {folder} by PYTHONPATH=. python -m tests.support.documents.manifests: change that.\n"
#: The file, the folder that it is made from, and the comment at its top.
FILES: Final = {
    "mock.yaml": ("base", (
        "# fakedev in a cluster whose nodes have no kubelet (KWOK):\n"
        "#   kubectl apply -f etc/kubernetes/mock.yaml\n"
        "# Nodes with the label fakedev/pool=dgx then have eight H100s. doc/kubernetes.md explains it.\n"
    )),
    "mock-kubelets.yaml": ("overlays/kubelets", (
        "# fakedev in a cluster with kubelets, as kind: all of mock.yaml, and fakedev-node on its nodes.\n"
        "# The token is yours, so make it first:\n"
        "#   kubectl create namespace fakedev\n"
        '#   kubectl -n fakedev create secret generic fakedev-node --from-literal=token="$(openssl rand -hex 32)"\n'
        "#   kubectl apply -f etc/kubernetes/mock-kubelets.yaml\n"
    )),
}  # fmt: skip


def sources() -> list[str]:
    """The objects of the base and the components as they are written, each with its comments."""
    files = [path for part in ("base", "components") for path in sorted((MANIFESTS / part).rglob("*.yaml"))]
    return [
        text
        for path in files
        if path.name != "kustomization.yaml"
        for text in texts_of(path.read_text(encoding="utf-8"))
    ]


def written(name: str) -> str:
    """A file as it should be: objects that a component changes have no comments."""
    folder, head = FILES[name]
    known = [(objects_of(text)[0], text) for text in sources()]
    documents = []
    for item in objects_of(rendered(folder)):
        text = next((text for source, text in known if source == item), None)
        documents.append(text or yaml.dump(item, Dumper=_Dumper, sort_keys=False, width=140))
    return head + _MADE.format(folder=folder) + "".join(f"---\n{text}" for text in documents)


def _checks(schema: Any) -> Any:
    """A schema without its texts."""
    if isinstance(schema, list):
        return [_checks(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _checks(value) for key, value in schema.items() if key not in _TEXTS or isinstance(value, dict)}


def written_schema() -> str:
    """The schema of the chart's values as it should be."""
    configuration = json.loads((ROOT / "fakedev" / "config" / "fakedev.schema.json").read_text(encoding="utf-8"))
    line = f'\n    "configuration": {json.dumps(_checks(configuration), separators=(",", ":"))},\n'
    return re.sub('\n    "configuration": .*,\n', lambda _: line, VALUES_SCHEMA.read_text(encoding="utf-8"), count=1)


def _ends(low: float, high: float) -> Object:
    """The ends of a range; none where they are only those of floating point, which not all programs read."""
    return {"minimum": low, "maximum": high} if high < 1e300 else {}


def _step(first: Object) -> Object:
    """The schema of a fault of an object.

    :param first: further properties: those of the first one.
    """
    properties: Object = {name: {"description": text, "type": "string"} for name, text in STEP_FIELDS.items()}
    properties["kind"]["enum"] = list(KINDS)
    properties["parameters"] = {
        "description": STEP_FIELDS["parameters"], "type": "object", "properties": {
            name: {
                "description": FAULT_FIELDS[name].purpose, "type": "number",
                **_ends(min(taker.low for taker in takers.values()), max(taker.high for taker in takers.values())),
            }
            for name, takers in PARAMETERS.items()
        },
    }  # fmt: skip
    return {"type": "object", "required": ["kind"], "properties": properties | first}


def _definition() -> Object:
    """The definition of DeviceFault."""
    texts = {"type": "array", "minItems": 1, "items": {"type": "string"}}
    forms: dict[str, Object] = {
        "nodes": texts, "devices": texts, "from": {"type": "string"},
        "nodeLabels": {"type": "object", "additionalProperties": {"type": "string"}},
        "then": {"type": "array", "maxItems": MAX_STEPS - 1, "items": _step({})},
    }  # fmt: skip
    spec = _step({name: {"description": text, **forms[name]} for name, text in SPEC_FIELDS.items()})
    shown = {
        mouth: {"description": text, "type": "object", "properties": {
            "shown": {"type": "integer"}, "of": {"type": "integer"},
        }} for mouth, text in MOUTHS.items()
    }  # fmt: skip
    landing = {
        "type": "object", "properties": {
            "kind": {"type": "string"}, "devices": {"type": "integer"}, "over": {"type": "boolean"}, **shown,
            "began": {"type": "string", "format": "date-time"}, "landed": {"type": "string", "format": "date-time"},
        },
    }  # fmt: skip
    condition = {name: {"type": "string"} for name in ("type", "status", "reason", "message", "lastTransitionTime")}
    status = {
        "type": "object", "properties": {
            "observedGeneration": {"type": "integer"}, "phase": {"type": "string"},
            "devices": {"description": "How many devices it strikes.", "type": "integer"},
            "conditions": {"type": "array", "items": {"type": "object", "properties": condition}},
            "shards": {
                "description": "What each fakedev has seen, by the number of its shard.", "type": "object",
                "additionalProperties": {"type": "object", "properties": {
                    "generation": {"type": "integer"}, "faults": {"type": "array", "items": {"type": "string"}},
                    "steps": {"type": "array", "items": landing},
                }},
            },
        },
    }  # fmt: skip
    columns = [
        ("Kind", "string", ".spec.kind"), ("Devices", "integer", ".status.devices"),
        ("Phase", "string", ".status.phase"), ("Landed", "string", '.status.conditions[?(@.type=="Landed")].status'),
        ("Reason", "string", '.status.conditions[?(@.type=="Landed")].reason'),
        ("Age", "date", ".metadata.creationTimestamp"),
    ]  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{RESOURCE}.{GROUP}"},
        "spec": {
            "group": GROUP, "scope": "Cluster",
            "names": {"kind": KIND, "plural": RESOURCE, "singular": KIND.lower(), "listKind": f"{KIND}List"},
            "versions": [{
                "name": VERSION, "served": True, "storage": True, "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    {"name": name, "type": form, "jsonPath": path} for name, form, path in columns
                ],
                "schema": {"openAPIV3Schema": {
                    "description": "Faults of simulated devices (doc/kubernetes.md).", "type": "object",
                    "required": ["spec"], "properties": {"spec": spec, "status": status},
                }},
            }],
        },
    }  # fmt: skip


def written_definition() -> str:
    """The file with the definition of DeviceFault, as it should be."""
    text = yaml.dump(_definition(), Dumper=_Dumper, sort_keys=False, width=140)
    return _MADE.format(folder="fakedev/kubernetes/faults/device_fault.py and the kinds of faults") + text


class _Dumper(yaml.SafeDumper):
    """Writes lists below their keys indented, as the files have them, and what is there twice twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


if __name__ == "__main__":
    for file in FILES:
        (MANIFESTS / file).write_text(written(file), encoding="utf-8")
    for path in DEFINITIONS:
        path.write_text(written_definition(), encoding="utf-8")
    VALUES_SCHEMA.write_text(written_schema(), encoding="utf-8")
