"""The keys of the configuration: read, described and documented from here."""

from __future__ import annotations

from fakedev.config.endpoint_keys import MAX_CONNECTIONS, MESSAGE_TIMEOUT, WEB, WORKLOAD_LISTEN
from fakedev.config.faults import FAULT
from fakedev.config.kubernetes import KUBERNETES
from fakedev.config.nvml import NVML
from fakedev.config.pools.keys import FLEET
from fakedev.config.queues import QUEUES
from fakedev.config.schema.fields import keys_from
from fakedev.config.schema.schema import Key, Section
from fakedev.config.schema.types import Boolean, Choice, Duration, Integer, ListOf, Size, Text
from fakedev.config.tester import TESTER
from fakedev.config.web_config import WEB_CONFIG_TYPE
from fakedev.config.workloads import BASE
from fakedev.spec.limits import Limits

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
        MAX_CONNECTIONS,
        MESSAGE_TIMEOUT,
    ),
    doc="Work for the devices.",
)

LIMITS = Section(
    "limits",
    keys_from(Limits),
    doc="How much workloads and faults may take, of all peers together and of one. What has no room is refused as "
    "`full`; workloads and faults of the file count, and are an error when they have no room.",
)

JOURNAL = Section(
    "journal",
    (
        Key("file", Text("path"), "The file, in JSON Lines; FILE.1 and so on are older."),
        Key(
            "max-size",
            Size(),
            "A file that would become larger is rotated.",
            default=10_000_000,
            default_words="10MB",
        ),
        Key("keep", Integer(1, 1000), "The largest number of files.", default=5),
    ),
    doc="What happened, and why, in a file (faults.md).",
)

LOG = Section(
    "log",
    (
        Key(
            "level",
            Choice(("debug", "info", "warn", "error")),
            "The least important messages that are logged.",
            default="info",
        ),
        Key(
            "format",
            Choice(("text", "json")),
            "Lines of text, or JSON objects; for systemd's journal its fields.",
            default="text",
        ),
    ),
    doc="Logging, to standard error.",
)

HPC_JOBS = Section(
    "hpc-jobs",
    (
        Key(
            "folder", Text("path", longest=4096),
            "A folder with a file for each GPU, named by its index (or its UUID), with a job on each line.",
        ),
        Key("node", Text(), "The node whose GPUs these are.", default_words="the first node"),
        Key(
            "from",
            Choice(("files", "workloads")),
            "What the jobs come from: others write the files, and pages show the jobs; or fakedev writes them, of "
            "the workloads with the label hpc_job.",
            default="files",
        ),
        Key("every", Duration(0.1, 86400.0), "How often, in real time.", default=30.0),
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
            "`workloads.base` ([fake-gpu-operator.md](fake-gpu-operator.md)).",
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
            Text("path", longest=4096),
            "A folder in which the fleet is kept: it goes on after a restart, also after kill -9 (restarts.md).",
            default_words="none",
        ),
        Key("hpc-jobs", HPC_JOBS, "The jobs of GPUs, in a folder."),
        Key("nvml", NVML, "A file for the NVML library.", default_words="none", optional=True),
        Key("log", LOG, "Logging, to standard error."),
        Key(
            "watch",
            Boolean(),
            "Reload when the file, or one that it names, changes (reload.md).",
            default=False,
            default_words="false; true with a topology",
        ),
        Key("queues", QUEUES, "Work queues."),
        Key("tester", TESTER, "Load on work queues."),
        Key("kubernetes", KUBERNETES, "A Kubernetes cluster.", default_words="none", optional=True),
    ),
)
