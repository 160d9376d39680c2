"""A kubeconfig to how the API server is reached, and what is wrong with it."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import pytest

from fakedev.config.kubeconfig import in_cluster, read_kubeconfig
from fakedev.config.schema.files import Unreadable
from fakedev.config.schema.nodes import ConfigurationError
from fakedev.spec.api_server import ApiServer

CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN EC PRIVATE KEY-----\nMIIB\n-----END EC PRIVATE KEY-----\n"
KIND = f"""\
apiVersion: v1
kind: Config
current-context: kind-test
preferences: {{}}
clusters:
- name: kind-test
  cluster:
    server: https://127.0.0.1:6443
    certificate-authority-data: {base64.b64encode(CA.encode()).decode()}
contexts:
- name: kind-test
  context: {{cluster: kind-test, user: admin, namespace: gpus}}
- name: proxy
  context: {{cluster: proxy, user: admin}}
- name: broken
  context: {{cluster: gone, user: admin}}
- name: nobody
  context: {{cluster: kind-test, user: nobody}}
users:
- name: admin
  user:
    client-certificate-data: {base64.b64encode(CA.encode()).decode()}
    client-key-data: {base64.b64encode(KEY.encode()).decode()}
- name: nobody
  user: {{}}
- name: empty
"""
PROXY = """\
- name: proxy
  cluster: {server: "http://localhost:8001/", certificate-authority: /not/read.crt}
"""
PROXIED = KIND.replace("clusters:\n", "clusters:\n" + PROXY.replace(", certificate-authority: /not/read.crt", ""))


def read(text: str, context: str = "", files: Mapping[str, str] | None = None) -> ApiServer:
    """The value of a kubeconfig in /home/me."""

    def read_file(path: str) -> str:
        if files is None or path not in files:
            raise Unreadable("no such file")
        return files[path]

    return read_kubeconfig(text, context, "/home/me", read_file, "config")


def problems(text: str, context: str = "") -> list[str]:
    """What is wrong with a kubeconfig."""
    with pytest.raises(ConfigurationError) as caught:
        read(text, context)
    return [str(problem) for problem in caught.value.problems]


def test_a_kubeconfig_of_kind() -> None:
    """Certificates are in it."""
    assert read(KIND) == ApiServer(
        "https://127.0.0.1:6443", ca_pem=CA, certificate_pem=CA, key_pem=KEY, namespace="gpus", source="config"
    )


def test_secrets_are_not_shown() -> None:
    """Neither the key nor a token is in a log that shows the value."""
    shown = repr(ApiServer("https://a", token="secret", key_pem="secret", certificate_pem="secret"))
    assert "secret" not in shown


def test_another_context() -> None:
    """Without TLS no credentials are sent, as with kubectl."""
    assert read(PROXIED, "proxy") == ApiServer("http://localhost:8001", source="config")


def test_a_user_without_credentials() -> None:
    """A cluster may ask for none."""
    assert read(KIND, "nobody").certificate_pem == ""


def test_files_are_beside_the_kubeconfig() -> None:
    """Relative paths start at its folder."""
    text = """\
{"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
 "clusters": [{"name": "a", "cluster": {"server": "https://[::1]:6443", "certificate-authority": "ca.crt",
    "tls-server-name": "kubernetes"}}],
 "users": [{"name": "a", "user": {"token": "old", "tokenFile": "keys/token"}}]}
"""
    assert read(text, files={"/home/me/ca.crt": CA}) == ApiServer(
        "https://[::1]:6443", ca_pem=CA, server_name="kubernetes", token="old", token_file="/home/me/keys/token",
        source="config",
    )  # fmt: skip


def test_any_certificate() -> None:
    """Only when it is asked for."""
    ca_line = f"certificate-authority-data: {base64.b64encode(CA.encode()).decode()}"
    text = KIND.replace(ca_line, "insecure-skip-tls-verify: true")
    assert read(text).is_insecure
    assert not read(KIND).is_insecure


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            "current-context: kind-test\n", "",
            ["config:1: has no current-context: give one, or name a context (--context NAME)"],
        ),
        (
            "context: kind-test", "context: kind-tets",
            ["config:3: there is no context named 'kind-tets'; did you mean kind-test?"],
        ),
        (
            "{cluster: kind-test, user: admin, n", "{user: admin, n",
            ["config:12: the context kind-test has no cluster: give the name of one"],
        ),
        (
            "    server: https://127.0.0.1:6443\n", "",
            ["config:8: the cluster kind-test has no server: give its URL, as https://10.0.0.1:6443"],
        ),
        (
            "https://127.0.0.1:6443", "127.0.0.1:6443",
            ["config:8: server: '127.0.0.1:6443' is no URL of an API server: give one as https://10.0.0.1:6443"],
        ),
        (
            "https://127.0.0.1:6443", "https://127.0.0.1:99999",
            ["config:8: server: 'https://127.0.0.1:99999' is no URL of an API server: give one as https://10.0.0.1:6443"],
        ),
        (
            "    client-key-data", "    key-data",
            ["config:22: has no client-key: give client-key-data, or client-key with a path"],
        ),
        (
            "    client-certificate-data",
            "    token: two words\n    exec: {command: aws}\n    client-certificate-data",
            [
                "config:22: token: is one word of ASCII characters",
                "config:23: exec: programs that get credentials are not run: give `token` or `tokenFile`, as from "
                "`kubectl create token NAME`",
            ],
        ),
        (
            "    certificate-authority-data: ", "    certificate-authority-data: !",
            ["config:9: has the tag"],
        ),
        (
            "    certificate-authority-data: ", "    certificate-authority-data: '%'\n    x: ",
            ["config:9: certificate-authority-data: is no base64: give the PEM file by `base64 -w0 FILE`"],
        ),
        (
            "    certificate-authority-data: ", "    certificate-authority-data: aGVsbG8=\n    x: ",
            ["config:9: certificate-authority-data: is no PEM: it must have a line -----BEGIN CERTIFICATE-----"],
        ),
        (
            "    certificate-authority-data: ", "    certificate-authority: ca.crt\n    x: ",
            ["config:9: certificate-authority: /home/me/ca.crt: no such file"],
        ),
        (
            "    server: ", "    insecure-skip-tls-verify: true\n    proxy-url: socks5://a\n    server: ",
            [
                "config:8: insecure-skip-tls-verify: there is a certificate authority, too: remove one of them",
                "config:9: proxy-url: proxies are not used: give a `server` that is reached directly, or run "
                "`kubectl proxy`",
            ],
        ),
        (
            "    server: ", "    insecure-skip-tls-verify: maybe\n    server: ",
            ["config:8: insecure-skip-tls-verify: 'maybe' is neither true nor false"],
        ),
        (
            "clusters:\n", "clusters: none\nothers:\n",
            ["config:13: there is no cluster named 'kind-test': it has no clusters"],
        ),
    ],
)  # fmt: skip
def test_mistakes_have_a_line_and_a_remedy(before: str, after: str, expected: list[str]) -> None:
    """All of them at once."""
    assert before in KIND
    found = problems(KIND.replace(before, after, 1))
    assert len(found) == len(expected)
    for text, begin in zip(found, expected, strict=True):
        assert text.startswith(begin)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "config: a kubeconfig is a mapping of keys to values"),
        ("- a\n", "config:1: a kubeconfig is a mapping of keys to values"),
        ("a: [", "config:2: is not YAML"),
        ("current-context: [a]\n", "config:1: current-context: is a text, not a list or mapping"),
        ("contexts:\n- name: a\n  context: 1\ncurrent-context: a\n", "config:3: the context a is a mapping"),
    ],
)
def test_what_is_no_kubeconfig(text: str, expected: str) -> None:
    """Never a traceback."""
    assert problems(text)[0].startswith(expected) or problems(text)[0].replace(":1:", ":").startswith(expected)


def test_an_unknown_context_shows_those_that_there_are() -> None:
    """When none is near."""
    assert problems(KIND, "production") == [
        "config:1: there is no context named 'production': there are kind-test, proxy, broken, nobody"
    ]


def test_a_cluster_that_is_not_there() -> None:
    """The line is that of the context which names it."""
    assert problems(KIND, "broken") == ["config:16: there is no cluster named 'gone': there are kind-test"]


ENVIRON = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


class TestInCluster:
    """The service account of a pod."""

    def read(self, environ: Mapping[str, str], **files: str) -> ApiServer:
        """The value of a pod with these files."""

        def read_file(path: str) -> str:
            name = path.removeprefix("/secrets/").replace("ca.crt", "ca")
            if name not in files:
                raise Unreadable("no such file")
            return files[name]

        return in_cluster(environ, read_file, "/secrets")

    def test_a_pod(self) -> None:
        """The token stays in its file, which changes."""
        assert self.read(ENVIRON, ca=CA, token="t", namespace="gpus\n") == ApiServer(
            "https://10.96.0.1:443", ca_pem=CA, token_file="/secrets/token", namespace="gpus", source="/secrets"
        )

    def test_ipv6(self) -> None:
        """Brackets around the address."""
        environ = {**ENVIRON, "KUBERNETES_SERVICE_HOST": "fd00::1"}
        assert self.read(environ, ca=CA, token="t").url == "https://[fd00::1]:443"

    @pytest.mark.parametrize(
        ("environ", "files", "expected"),
        [
            ({}, {}, "environment: KUBERNETES_SERVICE_HOST is not set, so this is no pod of a cluster: give a"),
            ({**ENVIRON, "KUBERNETES_SERVICE_PORT": "x"}, {}, "environment: KUBERNETES_SERVICE_PORT 'x' is no port"),
            (ENVIRON, {}, "/secrets/ca.crt: no such file: the pod needs a service account"),
            (ENVIRON, {"ca": CA, "token": " "}, "/secrets/token: is empty: the pod needs a service account"),
        ],
    )  # fmt: skip
    def test_what_is_missing(self, environ: Mapping[str, str], files: dict[str, str], expected: str) -> None:
        """With the remedy."""
        with pytest.raises(ConfigurationError) as caught:
            self.read(environ, **files)
        assert str(caught.value).startswith(expected)
