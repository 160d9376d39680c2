"""How the API server of a configuration is reached: by a kubeconfig, or by the service account of fakedev's pod."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from fakedev.config.kubeconfig import in_cluster, read_kubeconfig
from fakedev.config.schema.files import Unreadable, read_file
from fakedev.config.schema.nodes import ConfigurationError, Problem
from fakedev.spec.api_server import ApiServer
from fakedev.spec.kubernetes import KubernetesSettings


def api_server(settings: KubernetesSettings, environ: Mapping[str, str]) -> ApiServer:
    """How the API server of the configuration is reached.

    :raises ConfigurationError: naming the file and what it lacks.
    """
    path = settings.kubeconfig
    if not path:
        server = in_cluster(environ, read_file)
    else:
        try:
            text = read_file(path)
        except Unreadable as error:
            raise ConfigurationError([Problem(path, error.line, f"kubernetes.kubeconfig: {error}")]) from None
        server = read_kubeconfig(text, settings.context, os.path.dirname(path), read_file, path)
    return replace(server, namespace=settings.namespace or server.namespace)
