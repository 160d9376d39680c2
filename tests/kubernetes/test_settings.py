"""The section ``kubernetes``, pools whose nodes come from a cluster, and how the API server is reached."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence

import pytest

from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.fleet.spec.offers import InCluster, MigStrategy, Recovery, Resources, Struck
from fakedev.kubernetes.settings import in_cluster, kubeconfig_paths, read_kubeconfigs
from fakedev.runtime.tls_settings import ApiServer
from fakedev.schema.files import Files, Unreadable
from fakedev.schema.places import ConfigurationError

POOL = "fleet: {pools: [{name: gpu, nodes: cluster, device: h100%s}]}\n"


def loaded(text: str) -> Configuration:
    """The configuration of a text."""
    return load(None, Files(environ={}), [], text)


def problems_of(text: str) -> str:
    """What is wrong with a text."""
    with pytest.raises(ConfigurationError) as error:
        loaded(text)
    return str(error.value)


def test_a_cluster_gives_the_nodes() -> None:
    """A pool without nodes, to begin with; the section's defaults are those of a pod in the cluster."""
    configuration = loaded(POOL % "" + "kubernetes: {}\n")
    (pool,) = configuration.fleet.pools
    assert pool.has_cluster_nodes
    assert pool.nodes == ()
    assert configuration.kubernetes is not None
    settings = configuration.kubernetes.settings
    assert (settings.node_label, settings.utilization, settings.kubeconfig) == ("fakedev/pool", (80.0, 100.0), "")
    assert configuration.kubernetes.listen == ()


def test_all_keys() -> None:
    configuration = loaded(
        POOL % ", sharing: {replicas: 4, rename: true}, mig-strategy: mixed"
        + """
kubernetes:
  nodes: {label: example.com/pool}
  pods: {utilization: "10-30", struck: evict}
  resources: both
  recovery: vendor
  requests-per-second: 5
  compatibility: fake-gpu-operator
  kubeconfig: /home/me/.kube/config
  context: kind
  namespace: gpu-operator
  listen: [{listen: "*:9998", tokens: [a-long-secret]}]
"""
    )
    assert configuration.fleet.pools[0].in_cluster == InCluster(4, True, MigStrategy.MIXED)
    assert configuration.kubernetes is not None
    settings = configuration.kubernetes.settings
    assert settings.node_label == "example.com/pool"
    assert settings.utilization == (10.0, 30.0)
    assert (settings.struck, settings.resources, settings.recovery) == (Struck.EVICT, Resources.BOTH, Recovery.VENDOR)
    assert (settings.requests_per_second, settings.is_compatible) == (5.0, True)
    assert (settings.kubeconfig, settings.context) == ("/home/me/.kube/config", "kind")
    assert settings.namespace == "gpu-operator"
    assert configuration.kubernetes.listen[0].tokens == ("a-long-secret",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (POOL % "", "there is no cluster: give the section kubernetes:"),
        ("kubernetes: {}\n", "no pool has the nodes of the cluster that kubernetes (or --kubeconfig) names"),
        (POOL % ", profile: training" + "kubernetes: {}\n", "profile: the nodes come from the cluster"),
        (POOL % ", churn: {rate: 1/h}" + "kubernetes: {}\n", "churn: the nodes come from the cluster"),
        (POOL % "" + "kubernetes: {context: kind}\n", "kubernetes.context: is of a kubeconfig"),
        (POOL % "" + "kubernetes: {nodes: {label: a b}}\n", "'a b' is no name of a label, as fakedev/pool"),
        (POOL % "" + "kubernetes: {pods: {utilization: 100-80}}\n", "'100-80' is no range of percentages"),
        (POOL % "" + "kubernetes: {pods: {utilization: 50-101}}\n", "is no range of percentages"),
        (POOL % "" + "kubernetes: {namespace: Blue}\n", "'Blue' is no name in Kubernetes"),
        (POOL % "" + "kubernetes: {listen: ['*:9998']}\n", "lets other machines report the devices of pods"),
        (POOL % "" + "kubernetes: {}\nweb: [{per-node: 127.64.0.0/16:9400}]\n", "have no addresses here"),
        (POOL % ", sharing: {replicas: 0}" + "kubernetes: {}\n", "replicas: 0 is not within 1 to 100"),
        (POOL % "" + "kubernetes: {dynamic-mig: true}\n", "dynamic-mig: claims divide boards: give resources: dra"),
        (POOL % ", mig: [1g.10gb]" + "kubernetes: {resources: dra, dynamic-mig: true}\n", "leave mig: out"),
        (POOL % "" + "kubernetes: {node-topologies: true, resources: dra}\n", "resources: device-plugin"),
        (POOL % "" + "kubernetes: {compute-domains: true}\n", "channels are given by claims: give resources: dra"),
        (POOL % ", sharing: {consumable: true}" + "kubernetes: {}\n", "claims consume devices: give kubernetes"),
        (
            POOL % ", sharing: {consumable: true}" + "kubernetes: {resources: dra, dynamic-mig: true}\n",
            "claims divide boards: leave one of the two out",
        ),
        (POOL % "" + "kubernetes: {resourcess: dra}\n", "did you mean 'resources'?"),
    ],
)
def test_mistakes(text: str, problem: str) -> None:
    assert problem in problems_of(text)


def test_a_shard_may_have_no_node_yet() -> None:
    text = POOL.replace("fleet: {", "fleet: {shard: 1/4, ") % "" + "kubernetes: {}\n"
    assert loaded(text).fleet.shard is not None


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

    known = {"/home/me/config": text, **(files or {})}

    def read_file(path: str) -> str:
        if path not in known:
            raise Unreadable("no such file")
        return known[path]

    return read_kubeconfigs(["/home/me/config"], context, read_file)


def problems(text: str, context: str = "") -> list[str]:
    """What is wrong with a kubeconfig."""
    with pytest.raises(ConfigurationError) as caught:
        read(text, context)
    return [str(problem).removeprefix("/home/me/") for problem in caught.value.problems]


def test_a_kubeconfig_of_kind() -> None:
    assert read(KIND) == ApiServer(
        "https://127.0.0.1:6443", ca_pem=CA, certificate_pem=CA, key_pem=KEY, namespace="gpus", source="/home/me/config"
    )


def test_secrets_are_not_shown() -> None:
    shown = repr(ApiServer("https://a", token="secret", key_pem="secret", certificate_pem="secret"))
    assert "secret" not in shown


def test_another_context() -> None:
    """Without TLS no credentials are sent, as with kubectl."""
    assert read(PROXIED, "proxy") == ApiServer("http://localhost:8001", source="/home/me/config")


def test_a_user_without_credentials() -> None:
    assert read(KIND, "nobody").certificate_pem == ""


def test_files_are_beside_the_kubeconfig() -> None:
    text = """\
{"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
 "clusters": [{"name": "a", "cluster": {"server": "https://[::1]:6443", "certificate-authority": "ca.crt",
    "tls-server-name": "kubernetes"}}],
 "users": [{"name": "a", "user": {"token": "old", "tokenFile": "keys/token"}}]}
"""
    assert read(text, files={"/home/me/ca.crt": CA}) == ApiServer(
        "https://[::1]:6443", ca_pem=CA, server_name="kubernetes", token="old", token_file="/home/me/keys/token",
        source="/home/me/config",
    )  # fmt: skip


def test_any_certificate() -> None:
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
    assert before in KIND
    found = problems(KIND.replace(before, after, 1))
    assert len(found) == len(expected)
    for text, begin in zip(found, expected, strict=True):
        assert text.startswith(begin)


@pytest.mark.slow
def test_a_kubeconfig_that_is_cut_anywhere() -> None:
    for end in range(len(KIND)):
        try:
            server = read(KIND[:end])
        except ConfigurationError as error:
            assert str(error).startswith("/home/me/config:")
        else:
            assert server.url == "https://127.0.0.1:6443"


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
    assert problems(text)[0].startswith(expected) or problems(text)[0].replace(":1:", ":").startswith(expected)


def test_an_unknown_context_shows_those_that_there_are() -> None:
    assert problems(KIND, "production") == [
        "config:1: there is no context named 'production': there are kind-test, proxy, broken, nobody"
    ]


def test_a_cluster_that_is_not_there() -> None:
    """The line is that of the context which names it."""
    assert problems(KIND, "broken") == ["config:16: there is no cluster named 'gone': there are kind-test"]


ENVIRON = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


class TestInCluster:
    def read(self, environ: Mapping[str, str], **files: str) -> ApiServer:
        """The value of a pod with these files."""

        def read_file(path: str) -> str:
            name = path.removeprefix("/secrets/").replace("ca.crt", "ca")
            if name not in files:
                raise Unreadable("no such file")
            return files[name]

        return in_cluster(environ, read_file, "/secrets")

    def test_a_pod(self) -> None:
        assert self.read(ENVIRON, ca=CA, token="t", namespace="gpus\n") == ApiServer(
            "https://10.96.0.1:443", ca_pem=CA, token_file="/secrets/token", namespace="gpus", source="/secrets"
        )

    def test_ipv6(self) -> None:
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
        with pytest.raises(ConfigurationError) as caught:
            self.read(environ, **files)
        assert str(caught.value).startswith(expected)


class TestSeveralFiles:
    """Files that KUBECONFIG names, merged as kubectl merges them."""

    FIRST = """\
contexts:
- {name: one, context: {cluster: c1, user: u1, namespace: first}}
users:
- {name: u1, user: {tokenFile: token}}
"""
    SECOND = """\
current-context: one
contexts:
- {name: one, context: {cluster: other}}
- {name: two, context: {cluster: c1, namespace: second}}
clusters:
- {name: c1, cluster: {server: "https://10.0.0.1:6443"}}
"""
    THIRD = """\
current-context: two
clusters:
- {name: c1, cluster: {server: "https://10.0.0.9:6443"}}
"""

    @staticmethod
    def read(files: Mapping[str, str], names: Sequence[str], context: str = "") -> ApiServer:
        """The value of some files."""

        def read_file(path: str) -> str:
            if path not in files:
                raise Unreadable("no such file")
            return files[path]

        return read_kubeconfigs(names, context, read_file)

    def test_merged(self) -> None:
        """The first entry of a name counts, and the first current-context; paths start in the folder of their file."""
        files = {"/a/1": self.FIRST, "/b/2": self.SECOND, "/c/3": self.THIRD, "/c/empty": ""}
        assert self.read(files, [*files]) == ApiServer(
            "https://10.0.0.1:6443", token_file="/a/token", namespace="first", source="/a/1:/b/2:/c/3:/c/empty"
        )
        assert self.read(files, ["/c/3", "/b/2"]).url == "https://10.0.0.9:6443"
        assert self.read(files, ["/c/3", "/b/2"]).namespace == "second"
        assert self.read(files, [*files], "two").namespace == "second"

    def test_files_that_are_not_there(self) -> None:
        files = {"/a/1": self.FIRST, "/b/2": self.SECOND}
        assert self.read(files, ["/no/1", *files, "/no/2"]) == self.read(files, [*files])
        for names, text in (
            (["/no/1"], "/no/1: kubeconfig: no such file"),
            (["/no/1", "/no/2"], "KUBECONFIG: none of its files is there: /no/1, /no/2"),
        ):
            with pytest.raises(ConfigurationError) as caught:
                self.read(files, names)
            assert [str(problem) for problem in caught.value.problems] == [text]

    def test_an_error_has_its_file(self) -> None:
        files = {"/a/1": self.FIRST.replace("cluster: c1", "cluster: c9"), "/b/2": self.SECOND}
        with pytest.raises(ConfigurationError) as caught:
            self.read(files, [*files])
        (problem,) = map(str, caught.value.problems)
        assert problem.startswith("/a/1:2: there is no cluster named 'c9'")

    @pytest.mark.parametrize(
        ("given", "variable", "paths"),
        [
            ("/etc/k", "/a:/b", ("/etc/k",)),
            ("", "/a:/b::/a", ("/a", "/b")),
            ("", "", ()),
            ("", None, ()),
        ],
    )
    def test_which_files(self, given: str, variable: str | None, paths: tuple[str, ...]) -> None:
        assert kubeconfig_paths(given, {} if variable is None else {"KUBECONFIG": variable}) == paths
        assert kubeconfig_paths("", {"KUBECONFIG": "k"}) == (os.path.abspath("k"),)
