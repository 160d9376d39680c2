"""The manifests that are one file each: what kubectl makes of an overlay, with the comments of its parts.

Run as a script it writes them again. kubectl comes with the extra ``test``; kustomize itself drops comments.
"""

from __future__ import annotations

from typing import Final

import yaml

from tests.support.manifests import MANIFESTS, objects_of, rendered, texts_of

_MADE: Final = "# Made from {folder} by PYTHONPATH=. python -m tests.support.documents.manifests: change that.\n"
#: The file, the folder that it is made from, and the comment at its top.
FILES: Final = {
    "mock.yaml": ("base", (
        "# fakedev in a cluster whose nodes have no kubelet (KWOK):\n"
        "#   kubectl apply -f etc/kubernetes/mock.yaml\n"
        "# Nodes with the label fakedev/pool=dgx then have eight H100s. doc/kubernetes-manifests.md explains it.\n"
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


class _Dumper(yaml.SafeDumper):
    """Writes lists below their keys indented, as the files have them."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


if __name__ == "__main__":
    for file in FILES:
        (MANIFESTS / file).write_text(written(file), encoding="utf-8")
