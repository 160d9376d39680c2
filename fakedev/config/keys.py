"""The keys of the configuration: read, described and documented from here."""

from __future__ import annotations

from typing import Final

from fakedev.base.names import host_name, token_text
from fakedev.config.configuration import HpcJobs, Journal, Shown, WebEndpoint, WebPage
from fakedev.exporters.settings.otlp import OTLP
from fakedev.fleet.settings.faults import FAULT
from fakedev.fleet.settings.pools import FLEET
from fakedev.fleet.settings.ports import WORKLOAD_LISTEN
from fakedev.fleet.settings.workloads import BASE
from fakedev.fleet.spec.limits import Limits
from fakedev.kubernetes.settings import KUBERNETES
from fakedev.nvml.settings import KERNEL_LOG, NVML
from fakedev.queues.settings import QUEUES
from fakedev.runtime.settings import LOG
from fakedev.schema.sections import Key, Section
from fakedev.schema.types import Boolean, Choice, Integer, ListOf, Path, Text, keys_from
from fakedev.tester.settings import TESTER
from fakedev.web.settings import GROUP, LISTEN_DOC, MODE, WEB_CONFIG_TYPE, LinePortSettings

_HOSTS: Final = ListOf(Text("host name", host_name))
_SHOWN: Final = keys_from(Shown)

PAGE = Section(
    "web.pages",
    (*keys_from(WebPage, "path"), *_SHOWN),
    doc="A page of metrics besides /metrics: the same devices in another identity, or some of them.",
)

WEB = Section(
    "web",
    (
        Key("listen", Text("address"), LISTEN_DOC, default_words="none; must be given, or per-node"),
        Key(
            "per-node",
            Text("NETWORK:PORT"),
            "In place of listen: an address for each node, as 127.64.0.0/16:9400, with its exporter's /metrics and "
            "/health.",
        ),
        *keys_from(WebEndpoint, "serve"),
        MODE,
        GROUP,
        *_SHOWN,
        Key("pages", ListOf(PAGE), "Further pages of metrics.", default=()),
        Key(
            "token",
            Text("text", lambda text: "" if text == "none" else token_text(text)),
            "The token of requests that change something. none: there is none, and without open: true other machines "
            "get what serve: metrics has.",
            secret=True,
        ),
        Key(
            "token-file",
            Path(),
            "A file with the token, in place of `token`, as ${CREDENTIALS_DIRECTORY}/token. Read at the start and by "
            "reloads; never in a record.",
            default_words="none",
        ),
        *keys_from(WebEndpoint, "open"),
        Key(
            "names", _HOSTS, "Names that Host may have in requests to the API, besides localhost and IP addresses.",
            default=(),
        ),
        Key(
            "web-config",
            WEB_CONFIG_TYPE,
            "A web configuration file, as exporters of Prometheus take it, or its keys: TLS, passwords, headers "
            "(security.md).",
            default_words="web-config of the top; none for a UNIX socket",
        ),
        Key("hosts", _HOSTS, "The name of `names` in 0.1.", default=()),
    ),
    doc="HTTP endpoints. An address alone is enough.",
    shorthand="listen",
)  # fmt: skip

WORKLOADS = Section(
    "workloads",
    (
        Key(
            "listen",
            ListOf(WORKLOAD_LISTEN, words="list of addresses"),
            "Where workloads connect.",
            default_yaml='["runtime:workload.sock"]',
            default_words="runtime:workload.sock",
        ),
        Key(
            "base",
            ListOf(BASE, words="list of workloads"),
            "Workloads that are present from the first tick.",
            default=(),
        ),
        *keys_from(LinePortSettings),
    ),
    doc="Work for the devices.",
)

LIMITS = Section(
    "limits",
    keys_from(Limits),
    doc="How much workloads and faults may take, of all peers together and of one. What has no room is refused as "
    "`full`; workloads and faults of the file count, and are an error when they have no room.",
)

JOURNAL = Section("journal", keys_from(Journal), doc="What happened, and why, in a file (faults.md).")

HPC_JOBS = Section(
    "hpc-jobs",
    (
        *keys_from(HpcJobs, "folder", "node"),
        Key(
            "from",
            Choice(("files", "workloads")),
            "What the jobs come from: others write the files, and pages show the jobs; or fakedev writes them, of "
            "the workloads with the label hpc_job, or job_id with AMD's exporter.",
            default="files",
        ),
        *keys_from(HpcJobs, "every_seconds"),
    ),
    doc="The jobs of GPUs, as dcgm-exporter's --hpc-job-mapping-dir (identities.md).",
)

CONFIGURATION = Section(
    "",
    (
        Key("version", Integer(1, 1), "Version of this format.", default=1),
        Key("fleet", FLEET, "The simulated machines."),
        Key(
            "topology",
            Text("path", longest=4096),
            "A topology of run-ai's fake-gpu-operator, whose nodes, GPUs and pods take the place of `fleet.pools` and "
            "`workloads.base` ([switching.md](switching.md#from-fake-gpu-operator)).",
        ),
        Key(
            "web",
            ListOf(WEB, words="list of addresses"),
            "HTTP endpoints.",
            default_yaml='["127.0.0.1:9400", "runtime:metrics.sock"]',
            default_words="127.0.0.1:9400 and runtime:metrics.sock",
        ),
        Key(
            "web-config",
            WEB_CONFIG_TYPE,
            "The web configuration of all HTTP addresses but UNIX sockets, a file or its keys: TLS, passwords, headers "
            "(security.md).",
            default_words="none",
        ),
        Key("workloads", WORKLOADS, "Work for the devices."),
        Key(
            "faults",
            ListOf(FAULT, words="list of faults"),
            "Faults, from the first tick on or later.",
            default=(),
        ),
        Key("limits", LIMITS, "How much workloads and faults may take."),
        Key("journal", JOURNAL, "What happened, and why, in a file."),
        Key(
            "state",
            Path(),
            "A folder in which the fleet is kept: it goes on after a restart, also after kill -9 (service.md).",
            default_words="none",
        ),
        Key("hpc-jobs", HPC_JOBS, "The jobs of GPUs, in a folder."),
        Key("nvml", NVML, "A file for the NVML library.", default_words="none", optional=True),
        Key("kernel-log", KERNEL_LOG, "XIDs as messages of the kernel.", default_words="none", optional=True),
        Key("otlp", OTLP, "A collector of OpenTelemetry's metrics.", default_words="none", optional=True),
        Key("log", LOG, "Logging, to standard error."),
        Key(
            "watch",
            Boolean(),
            "Reload when the file, or one that it names, changes (service.md).",
            default=False,
            default_words="false; true with a topology",
        ),
        Key("queues", QUEUES, "Work queues."),
        Key("tester", TESTER, "Load on work queues."),
        Key("kubernetes", KUBERNETES, "A Kubernetes cluster.", default_words="none", optional=True),
    ),
)
