"""A kubeconfig file, or the service account of a pod, to how the API server is reached.

Keys as in the reference of kubeconfig (v1); of those that kubectl knows, the ones that are not read are refused if they
change who asks or over which way, and ignored otherwise.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Final, NoReturn
from urllib.parse import urlsplit

from fakedev.config.schema.documents import read_document
from fakedev.config.schema.files import Unreadable, absolute
from fakedev.config.schema.nodes import ConfigurationError, Listing, Node, Place, Problem, Report, Scalar, Table
from fakedev.spec.api_server import SERVICE_ACCOUNT_FOLDER, ApiServer
from fakedev.spec.errors import did_you_mean

#: Gives the text of a file, or raises Unreadable.
Read = Callable[[str], str]

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


def read_kubeconfig(text: str, context: str, folder: str, read: Read, file: str = "kubeconfig") -> ApiServer:
    """How the API server of a context is reached.

    :param context: its name; empty: the current one.
    :param folder: where the file is: relative paths in it start there.
    :param read: gives the text of a file that the kubeconfig names; it must not remember it: keys are secret.
    :param file: its name in messages.
    :raises ConfigurationError: with every problem, and its line.
    """
    report = Report()
    node = read_document(text, file, report)
    report.raise_if_any()
    return _Reader(file, folder, read, report).server(node, context)


def in_cluster(environ: Mapping[str, str], read: Read, folder: str = SERVICE_ACCOUNT_FOLDER) -> ApiServer:
    """How a pod reaches the API server of its cluster; its token is read from the file again when that changes.

    :param folder: with the files ``token``, ``ca.crt`` and ``namespace``.
    :raises ConfigurationError: when this is no pod, or it has no service account.
    """
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        missing = "KUBERNETES_SERVICE_PORT" if host else "KUBERNETES_SERVICE_HOST"
        text = f"{missing} is not set, so this is no pod of a cluster: give a kubeconfig (--kubeconfig FILE)"
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
    """Reads one kubeconfig."""

    def __init__(self, file: str, folder: str, read: Read, report: Report) -> None:
        self._file = file
        self._folder = folder
        self._read = read
        self._report = report

    def server(self, node: Node | None, context: str) -> ApiServer:
        """The value; every problem at once."""
        top = self._table(node, "a kubeconfig", Place(self._file))
        place = top.place
        if not context:
            context = self._text(top, "current-context")
            if not context:
                self._fail(place, "has no current-context: give one, or name a context (--context NAME)")
            place = _place_of(top, "current-context")
        chosen = self._named(top, "contexts", "context", context, place)
        cluster_name, user_name = self._text(chosen, "cluster"), self._text(chosen, "user")
        if not cluster_name:
            self._fail(chosen.place, f"the context {context} has no cluster: give the name of one")
        cluster = self._named(top, "clusters", "cluster", cluster_name, _place_of(chosen, "cluster"))
        user = None
        if user_name:
            user = self._named(top, "users", "user", user_name, _place_of(chosen, "user"), may_be_empty=True)
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
            token=token, token_file=absolute(token_file, self._folder) if token_file else "",
            namespace=namespace or "default", source=self._file,
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
        self, top: Table, key: str, inner: str, name: str, asked: Place, *, may_be_empty: bool = False
    ) -> Table:
        """The entry of a list of contexts, clusters or users."""
        node = top.get(key)
        entries = node.items if isinstance(node, Listing) else ()
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
            path = absolute(path, self._folder)
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
