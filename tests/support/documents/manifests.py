"""The manifests that are one file each: what kubectl makes of an overlay, with the comments of its parts.

The schema of the chart's values has that of the configuration in one of its lines. Run as a script it writes all of
them again. kubectl comes with the extra ``test``; kustomize itself drops comments.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import yaml

from tests.support.kube.manifests import CHART, MANIFESTS, objects_of, rendered, texts_of
from tests.support.paths import ROOT

VALUES_SCHEMA: Final = CHART / "values.schema.json"
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


class _Dumper(yaml.SafeDumper):
    """Writes lists below their keys indented, as the files have them."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


if __name__ == "__main__":
    for file in FILES:
        (MANIFESTS / file).write_text(written(file), encoding="utf-8")
    VALUES_SCHEMA.write_text(written_schema(), encoding="utf-8")
