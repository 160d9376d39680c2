"""How commands reach a Prometheus, which may require a password, a token or certificates."""

from __future__ import annotations

from argparse import Namespace
from typing import Final

from fakedev.client.http import with_access
from fakedev.clone.prometheus_server import PrometheusServer
from fakedev.commands.reach import CannotAsk, access_of, access_options, token_of
from fakedev.runtime.client_tls import CannotUseTls
from fakedev.schema.options import WrongUsage

#: Beside ``--prometheus``; :func:`reached_prometheus` takes their values.
PROMETHEUS_ACCESS: Final = tuple(access_options("file with the Bearer token of the Prometheus, if it requires one"))


def reached_prometheus(options: Namespace) -> PrometheusServer | None:
    """The server that ``--prometheus`` names; None without that option.

    :raises WrongUsage: for what only a server requires, without one.
    :raises CannotAsk: when an option cannot be used.
    """
    if options.prometheus is None:
        for option in PROMETHEUS_ACCESS:
            if getattr(options, option.name.replace("-", "_")):
                raise WrongUsage(f"--{option.name} is for a Prometheus: give --prometheus URL")
        return None
    access = access_of(options)
    try:
        return PrometheusServer(options.prometheus, *with_access(token_of(options, {}, ""), access))
    except CannotUseTls as error:
        raise CannotAsk(f"--{error}", 2) from None
    except ValueError as error:
        raise CannotAsk(str(error), 2) from None
