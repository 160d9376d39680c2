"""Good inputs, from the documents and the examples of the project where there are some."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from fakedev.config.configuration import Configuration
from fakedev.fleet.spec.fault_kinds import KINDS as FAULT_KINDS
from fakedev.fleet.spec.quantities import KNOWN_QUANTITIES
from fakedev.fleet.verbs import WORKLOAD_GRAMMAR, WORKLOAD_VERBS
from fakedev.lines.grammar import Grammar
from fakedev.queues.verbs import QUEUE_BACKEND_GRAMMAR, QUEUE_BACKEND_VERBS, QUEUE_CLIENT_GRAMMAR, QUEUE_CLIENT_VERBS
from fakedev.schema.files import Files
from fakedev.web import paths
from fakedev.web.paths import WebPath
from tests.support.configurations import loaded, pool
from tests.support.paths import DATA, DOCUMENTS, ROOT
from tests.support.wire.original_bytes import go_workload

GRAMMARS: Final[tuple[Grammar, ...]] = (WORKLOAD_GRAMMAR, QUEUE_CLIENT_GRAMMAR, QUEUE_BACKEND_GRAMMAR)

#: Texts of values, each in some way right.
TEXTS: Final = (
    "250ms", "1h30m", "0", "90s", "512MiB", "80GB", "1.5 TB", "20/s", "1200/m", "p99<2s", "wait.p95 <= 1s",
    "failure>=1%", "rate>19/s", "ramp:5/s:50/s:60s", "steps:1/s,2/s,3/s:10s", "sine:10/s:5/s:1m", "spike:1/s:9/s:5s:1s",
    "seconds,rate\n0,1\n10,20\n", "seconds\n0\n1.5\n", "80:5:10,20:0:0", "40%:0:60,60%", "random(20%,50%,10s)",
    "ramp(0,90):0:60,steps(1,2,3):1:30", "increase(1GiB,2GiB,5m):0:1h", "square(0,100,10s,0.25)", "sine(50,20,1m)",
    "127.0.0.1:9400", "[::1]:9400", ":9400", "9400", "/run/x.sock", "@name", "unix:/run/x.sock:mode=660",
    "tcp:9400:interface=127.0.0.1", "10.0.0.0/24:9400", "0/3", "hostname/4", "dgx-12.example.com", "a-1/0-1,b/*", "all",
    "a-[1-2]/?", "card0", "a-1/0/gpu0", "*-1/*", "GPU-927d7444-b45a-7c49-8402-5e686e46a026", "0000:1b:00.0",
    "927d7444-b45a-7c49-8402-5e686e46a026", "2026-01-31T12:00:00Z", "1800000000.5", "start", "dgx-{03}", "secret-token",
    "GpuHot: detect<=2m", "recall>=90%", "silent==0", "xid code=79", "throttled_thermal",
    "xid_within_5s_every_1s", "-0x1F", "0b1_0", "1e3", "true", "-12.5",
)  # fmt: skip

MESSAGES: Final = (
    go_workload([(10, 1, 3), (0, 0, 2)], devices=("a/0",)),
    b'{"op":"run","name":"x","devices":["a/0"],"profile":[[80,5,10],[20,0,0]],"limits":{"power":300},"id":1}',
    b'{"op":"run","name":"x","devices":"all","profile":"80:5:10","metrics":{"memory":"40%:0:60"},"detach":true}',
    b'{"op":"fault","kind":"xid","devices":["a/1"],"code":79,"duration":"1m","id":"f"}',
    b'{"op":"advance","duration":"5s"}', b'{"op":"list","id":2}', b'{"op":"show","name":"w1"}',
    b'{"op":"put","queue":"sleep","arguments":["a","b"],"limit":2.5,"answer":"accepted","id":1}',
    b'{"op":"take","id":1,"queue":"sleep","count":10}', b'{"op":"done","id":1,"job":1,"output":"x"}',
    b'{"op":"fail","id":1,"job":1,"exit-code":1,"reason":"x"}', b'{"event":"ended","job":1,"state":"done"}',
    b'{"id":1,"ok":true,"jobs":[{"job":1,"arguments":["x"],"limit":1.5}]}', b'{"id":1,"ok":true,"job":7}',
    b'{"id":1,"ok":false,"error":{"code":"full","message":"x"}}',
    b'{\n\t"Queue": "sleep",\n\t"Args": ["1"],\n\t"Timeout": 2.5\n}', b'{"Queue": "sleep"}',
    b'{"Retcode": 0, "Output": "x", "Error": "", "Walltime": 0.2, "Timeout": 2.5}',
    b'{"Name": "x", "Repeat": 2, "Profile": [{"Load": 40, "Fluctuation": 8, "Seconds": 20}], "Limits": {"power": 9}}',
)  # fmt: skip

@cache
def line_words() -> tuple[bytes, ...]:
    """What mutations of messages put in: verbs, arguments, kinds of faults, quantities, device words, values."""
    words = {*FAULT_KINDS, *KNOWN_QUANTITIES, *TEXTS, "op", "id", "queue", "w1", "f1", "train", "sleep", "other"}
    for verb in (*WORKLOAD_VERBS, *QUEUE_CLIENT_VERBS, *QUEUE_BACKEND_VERBS):
        known = (verb.name, *(argument.name_in_words for argument in verb.arguments))
        words |= {word + end for word in known for end in ("", "=", " ")}
    return tuple(word.encode() for word in sorted(words))


@cache
def protocol_lines() -> tuple[bytes, ...]:
    """The lines of examples in the documents of the protocols."""
    lines = []
    for document in sorted(DOCUMENTS.glob("protocol-*.txt")):
        for line in document.read_text("utf-8").splitlines():
            if line.startswith("    ") and line.strip():
                lines.append(line.strip().encode())
    return tuple(dict.fromkeys(lines))


@cache
def requests() -> tuple[bytes, ...]:
    """HTTP requests to every path, with bodies where it takes some."""
    bodies = {
        paths.WORKLOADS: {"name": "x", "devices": ["a/0"], "profile": "80:5:10"},
        paths.FAULTS: {"kind": "xid", "devices": ["a/1"], "code": 79, "duration": "1m"},
        paths.CLOCK: {"advance": "5s"},
        paths.LOAD: {"rate": "20/s"},
    }
    names = {"NODE": "a", "INDEX": "0", "ID": "w1", "NUMBER": "1", "PART": "gpu0", "NAME": "sleep", "PLAN": "main"}
    made = []
    for path in (each for each in vars(paths).values() if isinstance(each, WebPath)):
        parts = {part: names.get(part, "x") for part in path.template.split("/") if part.isupper()}
        query = "?" + "&".join(f"{key}=1" for key in path.query) if path.query else ""
        for method in (*path.methods, "HEAD"):
            body = json.dumps(bodies.get(path, {})) if method == "POST" else ""
            head = f"{method} {path.at(**parts)}{query} HTTP/1.1\r\nHost: localhost:9400\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
            made.append(f"{head}\r\n{body}".encode())
    more = b"\r\nAccept-Encoding: gzip;q=0.5, *;q=0\r\nConnection: close\r\n\r\n"
    made.append(made[0].replace(b"\r\n\r\n", more) * 2)
    chunked = b"POST /api/v1/faults HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    made.append(chunked + b'5;a=b\r\n{"a":\r\n2\r\n1}\r\n0\r\nx: y\r\n\r\n')
    made.append(b"PUT / HTTP/1.0\nHost: localhost\nExpect: 100-continue\nContent-Length: 3\n\nabc")
    made.append(b"GET http://localhost/metrics HTTP/1.1\r\nhost: a\r\nauthorization: Bearer secret-token\r\n\r\n")
    return tuple(made)


@cache
def arguments_of_programs() -> tuple[bytes, ...]:
    """Arguments of the programs, split at NUL."""
    lines = (
        "-name=x -repeat 2 -activity 80:5:10 -socket :9400 -runtime-limit 5m",
        "-devregex card([0-9]+) -use memory=40GiB -limit power=300 --max-index 2",
        "-devnames card0,card1 -use fabric-tx=30%:0:60,60%:0:60 -kind compute",
        "-queue sleep -socket 127.0.0.1:9999 -glob /dev/dri/* sleep 1",
        "-queue sleep -parallel 4 -rate 20/s -fail p99<2s -runtime 10s sleep FILENAME",
        "-collect-interval 30000 -address :9400 -kubernetes -f /etc/x.csv", "-list sleep other", "-help", "-- -x",
        "-clients :9997 -backends /run/b.sock -max-waiting 10 -interval 5 sleep other",
    )  # fmt: skip
    return tuple(line.replace(" ", "\0").encode() for line in lines)


@cache
def captures() -> tuple[bytes, ...]:
    """Pages of metrics: those of the catalog's identities, and small ones with everything a page may have."""
    from fakedev.config.sample_page import sample_page  # noqa: PLC0415

    names = ("dcgm", "collectd", "xpumanager")
    pages = [b"\n".join(sample_page(name, "h100")[1].encode().splitlines()[:60]) for name in names]
    small = b'# HELP a text\n# TYPE a counter\na{x="1",y="b\\"c"} 1.5e3 1800000000\n# TYPE h histogram\n'
    return (*pages, small + b'h_bucket{le="+Inf"} 2\nh_sum 1\nh_count 2\n# EOF\n')


@cache
def configurations() -> tuple[bytes, ...]:
    """Every configuration of the examples and the documents."""
    found = [path.read_bytes() for path in sorted((ROOT / "etc").rglob("*.yaml")) if "kubernetes" not in path.parts]
    found.append((ROOT / "fakedev" / "config" / "demo.yaml").read_bytes())
    for document in sorted(DOCUMENTS.glob("*.md")):
        for block in re.findall(r"(?m)(?:^    .*\n|^\n)+", document.read_text("utf-8")):
            text = re.sub(r"(?m)^    ", "", block)
            if re.match(r"\s*(version|fleet|web|queues|workloads|faults|tester):", text):
                found.append(text.encode())
    small = pool(nodes="[a, b]", device="h100", devices_per_node="2", identity="dcgm")
    found += [each[:6000] for each in (small.encode(), json.dumps({"fleet": {"pools": [{"name": "a"}]}}).encode())]
    return tuple(each for each in found if len(each) < 12_000)


@cache
def web_configs() -> tuple[bytes, ...]:
    """Web configuration files: one with files, one with all in it."""
    users = b"basic_auth_users:\n  alice: $2b$10$" + b"a" * 53 + b"\n"
    return (
        b"tls_server_config: {cert_file: a.pem, key_file: b.pem, client_ca_file: c.pem,\n"
        b"  client_auth_type: RequireAndVerifyClientCert, client_allowed_sans: [a.example]}\n" + users,
        b"tls_server_config:\n  cert: x\n  key: y\n  min_version: TLS12\n  max_version: TLS13\n"
        b"  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256]\n"
        b"  prefer_server_cipher_suites: true\n  curve_preferences: [CurveP256]\n"
        b"http_server_config:\n  http2: false\n  headers: {X-Frame-Options: deny, X-XSS-Protection: '1'}\n"
        b"rate_limit: {interval: 1s, burst: 20}\n" + users,
    )


@cache
def rule_files() -> tuple[bytes, ...]:
    """The rule files of the examples, and one with all keys."""
    every = (
        b"kind: PrometheusRule\nspec:\n  groups:\n"
        b"  - {name: g, interval: 1m, query_offset: 5s, limit: 3, labels: {a: b}, rules: ["
        b"{record: 'a:b', expr: \"sum by (x) (a{b='c', __name__=~\\\"d|\\\"}[5m] offset 1w)\"}, "
        b"{alert: A, for: 1m, keep_firing_for: 2m, expr: '(a:b > 1 unless absent(c)) or on (x) d # e', "
        b"annotations: {fakedev_expects: 'fan, xid code=79'}}]}\n"
    )
    return (every, *(path.read_bytes() for path in sorted((ROOT / "etc" / "alert-rules").glob("*.yml"))))


@cache
def catalog(folder: str) -> tuple[bytes, ...]:
    """The files of a folder of the catalog."""
    files = Files()
    return tuple(files.peek_catalog(folder, name).encode()[:20_000] for name in files.catalog_names(folder))


@cache
def originals(name: str) -> tuple[bytes, ...]:
    """A file of the original's programs."""
    return ((DATA / f"original-{name}.json").read_bytes(),)


def words_of(seeds: Sequence[bytes], most: int = 400) -> tuple[bytes, ...]:
    """The words of texts, for mutations."""
    words = {word: None for seed in seeds for word in re.findall(rb"[A-Za-z_][A-Za-z0-9_.:-]{1,40}", seed)}
    return tuple(list(words)[:most])


@cache
def small_fleet() -> Configuration:
    """The configuration for targets that need some devices."""
    return loaded(pool(nodes="[a-1, a-2, b]", device="h100", devices_per_node="2", identity="dcgm"))
