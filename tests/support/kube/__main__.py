"""An API server in memory, at a port, to try ``fakedev serve --kubeconfig`` and kubectl without a cluster.

::

    PYTHONPATH=. python -m tests.support.kube --nodes 4 --kubeconfig /tmp/kubeconfig
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tests.support.kube.api_server import ClusterApi, node


def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=4, help="simulated nodes node-0, node-1, ... with the label")
    parser.add_argument("--pool", default="h100", help="the label's value")
    parser.add_argument("--kubeconfig", required=True, help="the file to write")
    options = parser.parse_args()
    from twisted.internet import reactor  # noqa: PLC0415 - importing it installs it

    typed: Any = reactor
    api = ClusterApi(typed)
    api.start()
    for number in range(options.nodes):
        api.add(node(f"node-{number}", {"fakedev/pool": options.pool}))
    Path(options.kubeconfig).write_text(api.kubeconfig, encoding="utf-8")
    print(f"{api.url}: {options.nodes} nodes; export KUBECONFIG={options.kubeconfig}", flush=True)
    typed.run()


if __name__ == "__main__":
    main()
