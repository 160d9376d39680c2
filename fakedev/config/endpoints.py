"""The addresses of the configuration, and the changes that each allows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from fakedev.base.groups import grouped
from fakedev.config.configuration import WebEndpoint, WebPage
from fakedev.config.pools import ShownPool
from fakedev.exporters.checks import check_identity, check_unique_nodes
from fakedev.exporters.identity import Identity
from fakedev.exporters.settings.catalog import Catalog
from fakedev.fleet.settings.ports import WorkloadListen
from fakedev.fleet.spec.fleet_spec import NodeSpec, PoolSpec
from fakedev.schema.addresses import ListenAddress, parse_listen, parse_per_node, same_address
from fakedev.schema.places import DEFAULT, Place, Report
from fakedev.schema.sections import Values, did_you_mean
from fakedev.web.paths import FIRST_PARTS
from fakedev.web.settings import LineListen, WebConfigSource, web_config_source

_PATH: Final = re.compile(r"(/[A-Za-z0-9][A-Za-z0-9._~-]*){1,8}")
_EVERYTHING: Final = frozenset(("workloads", "faults", "clock"))


class Endpoints:
    """Builds the endpoints of all ports; problems are reported.

    :param web_config: the web configuration of addresses of TCP without one of their own: a path, or its keys.
    :param runtime_folder: finds the default socket folder; raises ValueError when there is none.
    :param read_token: gives the token in a file; raises ValueError.
    """

    def __init__(
        self,
        catalog: Catalog,
        pools: list[ShownPool],
        web_config: str | Values | None,
        runtime_folder: Callable[[], str],
        read_token: Callable[[str], str],
        report: Report,
    ) -> None:
        self._catalog = catalog
        self._pools = grouped((pool.spec.name, pool) for pool in pools)
        self._web_config = web_config_source(web_config)
        self._runtime_folder = runtime_folder
        self._read_token = read_token
        self._report = report
        self._taken: list[tuple[ListenAddress, Place]] = []

    def web(self, entries: Iterable[Values], *, complete: bool) -> tuple[WebEndpoint, ...]:
        """The HTTP endpoints.

        :param complete: all pools could be built, so that an unknown pool does not exist.
        """
        return tuple(found for values in entries if (found := self._web(values, complete)) is not None)

    def workloads(
        self, entries: Iterable[Values], nodes: Mapping[str, NodeSpec], *, complete: bool
    ) -> tuple[WorkloadListen, ...]:
        return tuple(found for values in entries if (found := self._workload(values, nodes, complete)) is not None)

    def lines(self, entries: Iterable[Values], what: str) -> tuple[LineListen, ...]:
        """The addresses of a line port without settings of its own.

        :param what: what other machines can do there, for problems.
        """
        found = []
        for values in entries:
            listen = self._listen(values)
            if listen is None:
                continue
            tokens = self._tokens(values)
            found.append(
                values.build(
                    LineListen,
                    listen=listen,
                    tokens=tokens,
                    tls=self._tls_of(values, listen),
                    token_file=next(iter(values["token-files"]), ""),
                )
            )
            self._check_open(values, listen, what)
        return tuple(found)

    def _web(self, values: Values, complete: bool) -> WebEndpoint | None:
        if values["per-node"] is not None:
            return self._per_node(values, complete)
        listen = self._listen(values)
        identity = self._identity_of(values, complete)
        token = values["token"]
        if token is None:
            token = self._token("token-file", values["token-file"], values.place_of("token-file"))
        if values["token"] is not None and values.given("token-file"):
            self._report.problem(values.place_of("token-file"), "token-file: give this or token:, not both")
        if values["listen"] is None:
            self._report.problem(values.place, "web: an address needs listen: or per-node:")
        if listen is None:
            return None
        is_open = listen.local or token or values["open"] or values["serve"] != "all"
        if not is_open and token is None:
            self._report.problem(
                values.place_of("listen"),
                f"{listen.display} lets other machines change things: give it a token, or serve: metrics, "
                "or allow it by open: true",
            )
        if values.given("hosts"):
            self._report.note(values.place_of("hosts"), "hosts: is called names: now; a later version refuses hosts:")
        names, pages = frozenset((*values["names"], *values["hosts"])), self._pages(values, complete)
        return values.build(
            WebEndpoint, listen=listen, identity=identity, names=names, pages=pages, per_node=None, token=token or None,
            web_config=self._web_config_of(values, listen), serve=values["serve"] if is_open else "metrics",
            token_file=values["token-file"] or "",
        )  # fmt: skip

    def _web_config_of(self, values: Values, listen: ListenAddress) -> WebConfigSource | None:
        """The web configuration of an address; modes of files guard UNIX sockets, so they need their own."""
        own = web_config_source(values["web-config"])
        return own or (None if listen.path else self._web_config)

    def _per_node(self, values: Values, complete: bool) -> WebEndpoint | None:
        place = values.place_of("per-node")
        for key in ("listen", "serve", "pages", "token", "token-file", "open", "names", "hosts", "mode", "group"):
            if values.given(key):
                self._report.problem(values.place_of(key), f"{key}: does not go with per-node:")
        identity = self._identity_of(values, complete, is_one_page=False)
        found = self._report.tried(place, "per-node: ", parse_per_node, values["per-node"])
        if found is None:
            return None
        network, listen = found
        pools = [pool.spec for name, parts in self._pools.items() if values["pool"] in (None, name) for pool in parts]
        if any(pool.has_cluster_nodes for pool in pools):
            self._report.problem(place, "per-node: the nodes of a cluster come and go, and have no addresses here")
        count = sum(len(pool.nodes) for pool in pools)
        if count > network.num_addresses - 2:
            self._report.problem(place, f"per-node: {network} has not enough addresses for {count} nodes")
        self._take(listen, place)
        return WebEndpoint(
            listen, "exporter", identity=identity, pool=values["pool"], hold_seconds=values["hold"], per_node=network,
            web_config=self._web_config_of(values, listen),
        )  # fmt: skip

    def _pages(self, values: Values, complete: bool) -> tuple[WebPage, ...]:
        """The further pages of an endpoint; paths that cannot be used are reported."""
        pages: list[WebPage] = []
        for page in values["pages"]:
            path, place = page["path"], page.place_of("path")
            identity = self._identity_of(page, complete)
            if path is None:
                continue
            if not _PATH.fullmatch(path):
                self._report.problem(place, f"path: {path[:80]!r} is no path, as /amd/metrics")
            elif path.split("/")[1] in FIRST_PARTS:
                self._report.problem(place, f"path: /{path.split('/')[1]} is taken; it has pages of fakedev's own")
            for other in pages:
                if f"{path}/".startswith(f"{other.path}/") or f"{other.path}/".startswith(f"{path}/"):
                    self._report.problem(place, f"path: {path} and {other.path} cannot both be pages")
            pages.append(page.build(WebPage, identity=identity))
        return tuple(pages)

    def _identity_of(self, values: Values, complete: bool, *, is_one_page: bool = True) -> Identity | None:
        """The identity of an endpoint or page; None: the identities of the pools. Reports impossible pages.

        :param is_one_page: all nodes are on one page, not each on its own.
        """
        pools = [pool for parts in self._pools.values() for pool in parts]
        if values["pool"] is not None and complete:
            if values["pool"] not in self._pools:
                hint = did_you_mean(values["pool"], self._pools) or f"there is {', '.join(self._pools)}"
                self._report.problem(values.place_of("pool"), f"no pool {values['pool']!r}; {hint}")
                return None
            pools = self._pools[values["pool"]]
        if values["identity"] is None:
            if complete and is_one_page:
                self._check_page(pools, values.place)
            return None
        place = values.place_of("identity")
        loaded = self._catalog.identity(values["identity"], place)
        if loaded is None:
            return None
        for pool in pools:
            check_identity(loaded, pool.sample, place, self._report)
        check_unique_nodes(loaded.identity, [pool.sample for pool in pools], place, self._report)
        return loaded.identity

    def _check_page(self, pools: list[ShownPool], place: Place) -> None:
        """Reports identities and nodes that cannot share a page."""
        groups = grouped((pool.identity.identity, pool) for pool in pools)
        owners: dict[str, ShownPool] = {}
        for group in groups.values():
            specs: list[PoolSpec] = [pool.sample for pool in group]
            check_unique_nodes(group[0].identity.identity, specs, group[0].values.place_of("identity"), self._report)
            for family in group[0].identity.identity.families:
                other = owners.setdefault(family.name, group[0])
                if other is not group[0]:
                    own = group[0].values.place_of("identity")
                    self._report.problem(
                        own if place == DEFAULT else place,
                        f"pools {other.spec.name} and {group[0].spec.name} both have the family {family.name}, as "
                        f"{other.identity.identity.title} and {group[0].identity.identity.title}: give them one "
                        "identity, or give this endpoint its own pool: or identity:",
                    )
                    return

    def _workload(self, values: Values, nodes: Mapping[str, NodeSpec], complete: bool) -> WorkloadListen | None:
        listen = self._listen(values)
        node = values["node"] or ""
        if node and node not in nodes and complete:
            self._report.problem(values.place_of("node"), f"no node {node!r}" + did_you_mean(node, nodes, "; "))
        if listen is None:
            return None
        self._check_open(values, listen, "run workloads")
        allow = values["allow"]
        default = _EVERYTHING if listen.local else frozenset(("workloads",))
        return values.build(
            WorkloadListen, listen=listen, allow=frozenset(allow) if allow else default, tokens=self._tokens(values),
            tls=self._tls_of(values, listen), token_file=next(iter(values["token-files"]), ""),
        )  # fmt: skip

    def _tokens(self, values: Values) -> tuple[str, ...]:
        """The tokens of a line port, also those in files."""
        files = zip(values["token-files"], values.items_of("token-files"), strict=False)
        found = (self._token("token-files", path, node.place) for path, node in files)
        return (*values["tokens"], *(token for token in found if token is not None))

    def _token(self, key: str, path: str | None, place: Place) -> str | None:
        """The token in a file; None without a file, and for one that cannot be used, which is reported."""
        if path is None:
            return None
        return self._report.tried(place, f"{key}: ", self._read_token, path)

    def _tls_of(self, values: Values, listen: ListenAddress) -> WebConfigSource | None:
        """The TLS of a line port. A port without a certificate is refused: it would be plain text unnoticed."""
        tls: Values | None = values["tls_server_config"]
        if tls is None:
            return None
        if listen.path:
            self._report.problem(tls.place, f"tls_server_config: {listen.display} is a UNIX socket, which has no TLS")
        for name in ("cert", "key"):
            if not tls.given(name) and not tls.given(f"{name}_file"):
                self._report.problem(tls.place, f"tls_server_config: missing one of {name} or {name}_file")
        return web_config_source(tls)

    def _check_open(self, values: Values, listen: ListenAddress, what: str) -> None:
        """Report a line port that other machines can use without a token, unless that is allowed.

        :param what: what they could do.
        """
        if listen.local or values["open"] or values["tokens"] or values["token-files"]:
            return
        self._report.problem(
            values.place_of("listen"),
            f"{listen.display} lets other machines {what}: give it tokens:, listen on loopback or a UNIX socket, "
            "or allow it by open: true",
        )

    def _listen(self, values: Values) -> ListenAddress | None:
        text = values["listen"]
        if text is None:
            return None
        place = values.place_of("listen")
        listen = self._report.tried(
            place, "listen: ", parse_listen, text, folder=self._report.folder, runtime_folder=self._runtime_folder,
            mode=values["mode"], group=values["group"],
        )  # fmt: skip
        if listen is None:
            return None
        if not listen.path:
            for key in ("mode", "group"):
                if values.given(key):
                    self._report.problem(
                        values.place_of(key), f"{key}: is for UNIX sockets, and {listen.display} is none"
                    )
        self._take(listen, place)
        return listen

    def _take(self, listen: ListenAddress, place: Place) -> None:
        for other, where in self._taken:
            if same_address(listen, other):
                self._report.problem(place, f"{listen.display} is listened on twice (first at {where})")
                break
        self._taken.append((listen, place))
