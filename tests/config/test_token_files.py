"""Tokens in files, as systemd's credentials are."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakedev.config.export import effective_text
from fakedev.config.load import load
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError

TEXT = """
fleet: {pools: [{name: p, nodes: 1, device: h100}]}
web: [{listen: "*:9400", token-file: "${CREDENTIALS_DIRECTORY}/web"}]
workloads: {listen: [{listen: "*:9500", tokens: [token-as-text], token-files: [line, "${CREDENTIALS_DIRECTORY}/web"]}]}
queues: {names: [q], listen-clients: [{listen: "*:9997", token-files: [line]}], listen-backends: []}
"""


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """The files of tokens in a folder of credentials."""
    (tmp_path / "web").write_text("token-of-the-web\n")
    (tmp_path / "line").write_text("token-of-the-lines")
    return Files(environ={"CREDENTIALS_DIRECTORY": str(tmp_path)})


def test_tokens(tmp_path: Path, files: Files) -> None:
    """They stand beside those in the configuration; relative paths begin in its folder."""
    found = load(str(tmp_path / "f.yaml"), files, text=TEXT)
    assert [each.token for each in found.web] == ["token-of-the-web"]
    assert found.workloads.listen[0].tokens == ("token-as-text", "token-of-the-lines", "token-of-the-web")
    assert found.queues is not None
    assert found.queues.clients[0].tokens == ("token-of-the-lines",)


def test_what_has_them(tmp_path: Path, files: Files) -> None:
    """Neither the effective configuration nor what a record keeps; a recorded run can be read without the files."""
    text = effective_text(load(str(tmp_path / "f.yaml"), files, text=TEXT))
    assert f"token-file: {tmp_path}/web" in text
    recorded = Files(files.texts, files.variables)
    assert "token-of-the" not in text + str(recorded.__dict__)
    again = load(str(tmp_path / "f.yaml"), recorded, text=TEXT)
    assert "token-of-the" not in str(again.workloads) + str(again.web)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("[line]", "[no]", "f.yaml:5: token-files: {folder}/no: no such file"),
        ("[line]", "[short]", "f.yaml:5: token-files: {folder}/short: a token is 8 to 1024 printable ASCII characters"),
        ("token-file:", "token: token-as-text, token-file:", "f.yaml:3: token-file: give this or token:, not both"),
    ],
)
def test_what_is_refused(tmp_path: Path, files: Files, old: str, new: str, problem: str) -> None:
    """With its place, and nothing of what is in the file."""
    (tmp_path / "short").write_text("SECRET")
    with pytest.raises(ConfigurationError) as caught:
        load(str(tmp_path / "f.yaml"), files, text=TEXT.replace(old, new))
    assert problem.format(folder=tmp_path) in str(caught.value)
    assert "SECRET" not in str(caught.value)
