"""The section ``kubernetes``, and how the API server is reached: kubeconfig file, or service account of a pod.

The cluster gives the fleet its nodes and its work.

Keys as in the reference of kubeconfig (v1). Keys that kubectl takes and fakedev does not read are refused if they
change the user or the way of a request, and ignored otherwise.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn
from urllib.parse import urlsplit

from fakedev.base.errors import did_you_mean
from fakedev.base.names import node_label
from fakedev.fleet.settings.loaded import LoadedPool
from fakedev.fleet.spec.offers import NODE_LABEL, KubernetesSettings, MigEntry, Resources
from fakedev.runtime.tls_settings import SERVICE_ACCOUNT_FOLDER, ApiServer
from fakedev.schema.files import Files, Unreadable, absolute, read_file
from fakedev.schema.places import ConfigurationError, Listing, Node, Place, Problem, Report, Scalar, Table
from fakedev.schema.reader import read_document
from fakedev.schema.sections import Key, Section, Values
from fakedev.schema.types import Boolean, Choice, Integer, ListOf, MapOf, OneOf, Text, keys_from
from fakedev.web.settings import LINE_LISTEN, LineListen, LinePortSettings, ReadListen

#: Gives the text of a file, or raises Unreadable.
Read = Callable[[str], str]

#: The variable that names files, as for kubectl.
KUBECONFIG: Final = "KUBECONFIG"
_TRUE: Final = ("true", "True", "TRUE")
_FALSE: Final = ("false", "False", "FALSE")
_TOKEN: Final = "kubectl create token NAME"
_REFUSED_OF_USER: Final[Mapping[str, str]] = {
    "exec": f"programs that get credentials are not run: give `token` or `tokenFile`, as from `{_TOKEN}`",
    "auth-provider": f"providers of credentials are not used: give `token` or `tokenFile`, as from `{_TOKEN}`",
    "username": "API servers take no passwords any more: give `token`, or client-certificate and client-key",
    "password": "API servers take no passwords any more: give `token`, or client-certificate and client-key",
    "as": "acting as another user is not supported: give that user's `token`",
}
_PROXY: Final = "proxies are not used: give a `server` that is reached directly, or run `kubectl proxy`"


def read_kubeconfigs(paths: Sequence[str], context: str, read: Read) -> ApiServer:
    """How the API server of a context is reached that some files describe together, as kubectl merges them.

    The first file with a current-context, and the first entry of a name, count. Files that are not there are left out.

    :param paths: whole paths.
    :param context: its name; empty: the current one.
    :param read: gives the text of a file, also of one that a kubeconfig names; it must not remember it: keys are
        secret.
    :raises ConfigurationError: with every problem, and its place.
    """
    found: dict[str, str] = {}
    report = Report()
    for path in paths:
        try:
            found[path] = read(path)
        except Unreadable as error:
            if len(paths) == 1 or os.path.lexists(path):
                report.problem(Place(path, error.line), f"kubeconfig: {error}")
    if not found and not report.sorted_problems():
        report.problem(Place(KUBECONFIG, 0), f"none of its files is there: {', '.join(paths)[:500]}")
    report.raise_if_any()
    nodes = [read_document(text, path, report) for path, text in found.items()]
    report.raise_if_any()
    return _Reader({path: os.path.dirname(path) for path in found}, read, report).server(nodes, context)


def kubeconfig_paths(given: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The files that name the API server: one of the configuration, else those of the variable KUBECONFIG.

    :returns: whole paths, each once; none: the service account of a pod is used.
    """
    if given:
        return (given,)
    names = environ.get(KUBECONFIG, "").split(os.pathsep)
    return tuple(dict.fromkeys(os.path.abspath(name) for name in names if name))


def in_cluster(environ: Mapping[str, str], read: Read, folder: str = SERVICE_ACCOUNT_FOLDER) -> ApiServer:
    """How a pod reaches the API server of its cluster; its token is read from the file again when that changes.

    :param folder: with the files ``token``, ``ca.crt`` and ``namespace``.
    :raises ConfigurationError: when this is no pod, or it has no service account.
    """
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        missing = "KUBERNETES_SERVICE_PORT" if host else "KUBERNETES_SERVICE_HOST"
        remedy = f"give a kubeconfig (--kubeconfig FILE, or {KUBECONFIG})"
        text = f"{missing} is not set, so this is no pod of a cluster: {remedy}"
        _fail("environment", text)
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        _fail("environment", f"KUBERNETES_SERVICE_PORT {port[:60]!r} is no port, 1 to 65535")
    texts = {}
    for name in ("ca.crt", "token"):
        path = f"{folder}/{name}"
        try:
            texts[name] = read(path)
        except Unreadable as error:
            _fail(path, f"{error}: the pod needs a service account (automountServiceAccountToken: true)")
        if not texts[name].strip():
            _fail(path, "is empty: the pod needs a service account (automountServiceAccountToken: true)")
    try:
        namespace = read(f"{folder}/namespace").strip()
    except Unreadable:
        namespace = ""
    shown = f"[{host}]" if ":" in host else host
    return ApiServer(
        f"https://{shown}:{port}", ca_pem=texts["ca.crt"], token_file=f"{folder}/token",
        namespace=namespace or "default", source=folder,
    )  # fmt: skip


def _fail(file: str, text: str) -> NoReturn:
    raise ConfigurationError([Problem(file, 0, text)])


class _Reader:
    """Reads the kubeconfig of one file, or of several that are merged.

    :param folders: of each file: relative paths in it start there.
    """

    def __init__(self, folders: Mapping[str, str], read: Read, report: Report) -> None:
        self._folders = folders
        self._read = read
        self._report = report

    def server(self, nodes: Sequence[Node | None], context: str) -> ApiServer:
        """The value; every problem at once."""
        tops = [
            self._table(node, "a kubeconfig", Place(file))
            for file, node in zip(self._folders, nodes, strict=True)
            if len(nodes) == 1 or not (node is None or (isinstance(node, Scalar) and node.is_null))
        ] or [Table(Place(next(iter(self._folders))), ())]
        place = tops[0].place
        if not context:
            top = next((top for top in tops if self._text(top, "current-context")), None)
            if top is None:
                self._fail(place, "has no current-context: give one, or name a context (--context NAME)")
            context, place = self._text(top, "current-context"), _place_of(top, "current-context")
        chosen = self._named(tops, "contexts", "context", context, place)
        cluster_name, user_name = self._text(chosen, "cluster"), self._text(chosen, "user")
        if not cluster_name:
            self._fail(chosen.place, f"the context {context} has no cluster: give the name of one")
        cluster = self._named(tops, "clusters", "cluster", cluster_name, _place_of(chosen, "cluster"))
        user = None
        if user_name:
            user = self._named(tops, "users", "user", user_name, _place_of(chosen, "user"), may_be_empty=True)
        server = self._server(cluster, user, cluster_name, self._text(chosen, "namespace"))
        self._report.raise_if_any()
        return server

    def _server(self, cluster: Table, user: Table | None, name: str, namespace: str) -> ApiServer:
        url = self._url(cluster, name)
        is_encrypted = url.startswith("https:")
        if self._text(cluster, "proxy-url"):
            self._problem(_place_of(cluster, "proxy-url"), f"proxy-url: {_PROXY}")
        is_insecure = self._flag(cluster, "insecure-skip-tls-verify")
        ca_pem = self._pem(cluster, "certificate-authority", "CERTIFICATE")
        if ca_pem and is_insecure:
            place = _place_of(cluster, "insecure-skip-tls-verify")
            self._problem(place, "insecure-skip-tls-verify: there is a certificate authority, too: remove one of them")
        certificate = key = token = token_file = ""
        # As kubectl does: without TLS no credentials are sent, for everyone on the way could read them.
        if user is not None and is_encrypted:
            for refused, why in _REFUSED_OF_USER.items():
                if user.get(refused) is not None:
                    self._problem(_place_of(user, refused), f"{refused}: {why}")
            certificate = self._pem(user, "client-certificate", "CERTIFICATE")
            key = self._pem(user, "client-key", "PRIVATE KEY")
            if bool(certificate) != bool(key):
                missing = "client-key" if certificate else "client-certificate"
                self._problem(user.place, f"has no {missing}: give {missing}-data, or {missing} with a path")
            token = self._token(user)
            token_file = self._text(user, "tokenFile")
        return ApiServer(
            url, ca_pem=ca_pem if is_encrypted else "", is_insecure=is_insecure,
            server_name=self._text(cluster, "tls-server-name"), certificate_pem=certificate, key_pem=key,
            token=token, token_file=self._absolute(token_file, user) if user is not None and token_file else "",
            namespace=namespace or "default", source=os.pathsep.join(self._folders),
        )  # fmt: skip

    def _url(self, cluster: Table, name: str) -> str:
        text = self._text(cluster, "server").rstrip("/")
        if not text:
            self._fail(cluster.place, f"the cluster {name} has no server: give its URL, as https://10.0.0.1:6443")
        place = _place_of(cluster, "server")
        try:
            parts = urlsplit(text)
            is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_right = False
        if not is_right or not text.isascii() or not text.isprintable() or set(" ?#@") & set(text):
            self._fail(place, f"server: {text[:200]!r} is no URL of an API server: give one as https://10.0.0.1:6443")
        return text

    def _named(
        self, tops: Sequence[Table], key: str, inner: str, name: str, asked: Place, *, may_be_empty: bool = False
    ) -> Table:
        """The first entry of that name in the lists of contexts, clusters or users."""
        lists = (top.get(key) for top in tops)
        entries = [entry for node in lists if isinstance(node, Listing) for entry in node.items]
        known = []
        for entry in entries:
            if not isinstance(entry, Table):
                continue
            found = self._text(entry, "name")
            known.append(found)
            if found == name:
                value = entry.get(inner)
                if may_be_empty and (value is None or (isinstance(value, Scalar) and value.is_null)):
                    return Table(entry.place, ())
                return self._table(value, f"the {inner} {name}", entry.place)
        names = f": there are {', '.join(known[:20])}" if known else f": it has no {key}"
        self._fail(asked, f"there is no {inner} named {name!r}{did_you_mean(name, known, names)}")

    def _pem(self, table: Table, key: str, kind: str) -> str:
        """PEM from ``KEY-data`` (base64), or from the file that ``KEY`` names; the former wins, as with kubectl."""
        data, path = self._text(table, f"{key}-data"), self._text(table, key)
        if data:
            place, shown = _place_of(table, f"{key}-data"), f"{key}-data"
            try:
                text = base64.b64decode("".join(data.split()), validate=True).decode("ascii")
            except (binascii.Error, ValueError):
                self._problem(place, f"{shown}: is no base64: give the PEM file by `base64 -w0 FILE`")
                return ""
        elif path:
            path = self._absolute(path, table)
            place, shown = _place_of(table, key), key
            try:
                text = self._read(path)
            except Unreadable as error:
                self._problem(place, f"{key}: {path}: {error}")
                return ""
        else:
            return ""
        if f"{kind}-----" not in text:
            self._problem(place, f"{shown}: is no PEM: it must have a line -----BEGIN {kind}-----")
            return ""
        return text

    def _absolute(self, path: str, table: Table) -> str:
        """A path of a cluster or user: a relative one starts in the folder of its file."""
        return absolute(path, self._folders[table.place.file])

    def _token(self, user: Table) -> str:
        token = self._text(user, "token")
        if token and not (token.isascii() and token.isprintable() and " " not in token):
            self._problem(_place_of(user, "token"), "token: is one word of ASCII characters")
            return ""
        return token

    def _flag(self, table: Table, key: str) -> bool:
        text = self._text(table, key)
        if text and text not in _TRUE + _FALSE:
            self._problem(_place_of(table, key), f"{key}: {text[:60]!r} is neither true nor false")
        return text in _TRUE

    def _text(self, table: Table, key: str) -> str:
        """The text of a key; empty when it is not there."""
        node = table.get(key)
        if node is None or (isinstance(node, Scalar) and node.is_null):
            return ""
        if isinstance(node, Scalar):
            return node.text
        self._problem(node.place, f"{key}: is a text, not a list or mapping")
        return ""

    def _table(self, node: Node | None, what: str, place: Place) -> Table:
        if isinstance(node, Table):
            return node
        self._fail(node.place if node is not None else place, f"{what} is a mapping of keys to values")

    def _problem(self, place: Place, text: str) -> None:
        self._report.problem(place, text)

    def _fail(self, place: Place, text: str) -> NoReturn:
        self._report.problem(place, text)
        self._report.raise_if_any()
        raise AssertionError("a problem was reported")


def _place_of(table: Table, key: str) -> Place:
    node = table.get(key)
    return node.place if node is not None else table.place


@dataclass(frozen=True)
class Kubernetes(LinePortSettings):
    """The connection with a cluster, and the ports for fakedev-node."""

    settings: KubernetesSettings
    #: Reloads open and close ports: two values that differ only in these are equal.
    listen: tuple[LineListen, ...] = field(default=(), compare=False)


_PERCENT: Final = re.compile(r"([0-9]{1,3})(?:-([0-9]{1,3}))?")
FAKE_GPU_OPERATOR: Final = "fake-gpu-operator"


def percentages(text: str) -> tuple[float, float]:
    """A range of percentages, ``80-100``, or one percentage."""
    found = _PERCENT.fullmatch(text)
    low, high = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if not 0 <= low <= high <= 100:
        raise ValueError(f"{text[:60]!r} is no range of percentages: give 80-100, or one number")
    return float(low), float(high)


NODE_LISTEN = Section(
    "kubernetes.listen",
    LINE_LISTEN,
    doc="Ports for fakedev-node. An address alone is enough.",
    shorthand="listen",
)

NODES = Section(
    "kubernetes.nodes",
    (
        Key(
            "label",
            Text("name of a label", node_label),
            "Nodes with this label are simulated; its value is the name of a pool with `nodes: cluster`. "
            "run.ai/simulated-gpu-node-pool, or the label that a topology names, is taken too.",
            default=NODE_LABEL,
            field="node_label",
        ),
    ),
    doc="The nodes that are simulated.",
)

PODS = Section(
    "kubernetes.pods",
    (
        Key(
            "utilization",
            Text("range of percentages", percentages),
            "Of the devices of a running pod that does not say.",
            default_yaml='"80-100"',
        ),
        *keys_from(KubernetesSettings, "struck"),
    ),
    doc="The pods on simulated nodes.",
)

MIG_ENTRY = Section(
    "kubernetes.mig-configs",
    (
        Key(
            "devices",
            OneOf((ListOf(Integer(0, 63), words="list of indices"), Choice(("all",)))),
            "The boards, by index.",
            required=True,
        ),
        Key("mig-enabled", Boolean(), "Whether they are in MIG mode.", required=True),
        Key("mig-devices", MapOf(Integer(0, 64), words="mapping of profiles to counts"), "Instances.", default={}),
        Key(
            "device-filter",
            OneOf((ListOf(Text()), Text())),
            "Only boards with this PCI identity, as 0x233010DE.",
            default=(),
        ),
    ),
    doc="What one entry of a configuration says of boards, as in files of NVIDIA's mig-parted.",
)

KUBERNETES = Section(
    "kubernetes",
    (
        Key("nodes", NODES, NODES.doc),
        Key("pods", PODS, PODS.doc),
        *keys_from(KubernetesSettings, "resources", "recovery", "requests_per_second", "device_faults", "dynamic_mig",
                    "compute_domains", "node_topologies"),
        Key(
            "mig-configs",
            MapOf(ListOf(MIG_ENTRY, 1, words="list of entries"), words="mapping of names to lists of entries"),
            "What the label nvidia.com/mig.config of nodes may name, in the form of mig-parted's files.",
            default={},
            default_words="those that the MIG manager makes of the profiles of the boards",
        ),
        Key(
            "compatibility",
            Choice(("none", FAKE_GPU_OPERATOR)),
            "fake-gpu-operator: its ConfigMaps, labels and topology server are there too.",
            default="none",
        ),
        *keys_from(KubernetesSettings, "kubeconfig", "context", "namespace"),
        Key(
            "listen",
            ListOf(NODE_LISTEN, words="list of addresses"),
            "Where fakedev-node connects, for nodes with a kubelet.",
            default=(),
        ),
        *keys_from(LinePortSettings),
    ),
    doc="A Kubernetes cluster, whose nodes and pods are those of the fleet ([kubernetes.md](kubernetes.md)).",
)


def load_kubernetes(
    values: Values | None,
    pools: Sequence[LoadedPool],
    read_listen: ReadListen,
    operator_label: str,
    files: Files,
    report: Report,
) -> Kubernetes | None:
    """The connection with a cluster; problems are reported.

    :param values: None: there is none.
    :param read_listen: reads the addresses of a port.
    :param operator_label: names the pools of nodes for fake-gpu-operator, in the words of the topology if there is one.
    """
    of_cluster = [pool for pool in pools if pool.spec.has_cluster_nodes]
    if values is None:
        for pool in of_cluster:
            text = "nodes: cluster: there is no cluster: give the section kubernetes: ({} is enough in a pod)"
            report.problem(pool.values.place_of("nodes"), text)
        return None
    if pools and not of_cluster:
        text = "no pool has the nodes of the cluster that kubernetes (or --kubeconfig) names: give one nodes: cluster"
        report.problem(pools[0].values.place, text)
    if values["context"] and not values["kubeconfig"] and not files.variable(KUBECONFIG):
        text = f"kubernetes.context: is of a kubeconfig: give kubeconfig: too, or set {KUBECONFIG}"
        report.problem(values.place_of("context"), text)
    _check_claims(values, of_cluster, report)
    return values.build(
        Kubernetes,
        settings=KubernetesSettings(**{
            **values.fields_of(KubernetesSettings), **values["nodes"].fields_of(KubernetesSettings),
            **values["pods"].fields_of(KubernetesSettings), "operator_label": operator_label,
            "is_compatible": values["compatibility"] == FAKE_GPU_OPERATOR,
            "mig_configs": {name: tuple(map(_mig_entry, each)) for name, each in values["mig-configs"].items()},
        }),
        listen=read_listen(values["listen"], "report the devices of pods"),
    )  # fmt: skip


def _check_claims(values: Values, pools: Sequence[LoadedPool], report: Report) -> None:
    """Report what needs DRA, and what excludes each other."""
    if values["compute-domains"] and values["resources"] is Resources.DEVICE_PLUGIN:
        text = "compute-domains: channels are given by claims: give resources: dra, or both"
        report.problem(values.place_of("compute-domains"), text)
    if values["node-topologies"] and values["resources"] is Resources.DRA:
        text = "node-topologies: they count what device plugins offer: give resources: device-plugin, or both"
        report.problem(values.place_of("node-topologies"), text)
    for pool in pools:
        if pool.spec.in_cluster.is_consumable and values["resources"] is Resources.DEVICE_PLUGIN:
            text = "sharing: consumable: claims consume devices: give kubernetes: {resources: dra}, or both"
            report.problem(pool.values.place_of("sharing"), text)
        elif pool.spec.in_cluster.is_consumable and values["dynamic-mig"]:
            text = "sharing: consumable: with kubernetes.dynamic-mig claims divide boards: leave one of the two out"
            report.problem(pool.values.place_of("sharing"), text)
    if not values["dynamic-mig"]:
        return
    place = values.place_of("dynamic-mig")
    if values["resources"] is not Resources.DRA:
        report.problem(place, "dynamic-mig: claims divide boards: give resources: dra")
    for pool in pools:
        if any(not part.is_tile for index in range(pool.spec.devices_per_node) for part in pool.spec.parts_of(index)):
            report.problem(pool.values.place, "mig: with kubernetes.dynamic-mig claims divide boards: leave mig: out")


def _mig_entry(values: Values) -> MigEntry:
    devices, wanted = values["devices"], values["device-filter"]
    return MigEntry(
        devices=None if devices in ("all", None) else tuple(devices),
        is_enabled=bool(values["mig-enabled"]),
        instances=values["mig-devices"],
        filter=(wanted,) if isinstance(wanted, str) else tuple(wanted),
    )


def api_server(settings: KubernetesSettings, environ: Mapping[str, str]) -> ApiServer:
    """How the API server of the configuration is reached.

    :raises ConfigurationError: naming the file and what it lacks.
    """
    paths = kubeconfig_paths(settings.kubeconfig, environ)
    server = read_kubeconfigs(paths, settings.context, read_file) if paths else in_cluster(environ, read_file)
    return replace(server, namespace=settings.namespace or server.namespace)
