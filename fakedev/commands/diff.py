"""Lists the differences between the pages of two identities, by kind."""

from __future__ import annotations

import os
import sys
from argparse import Namespace

from fakedev.base.console import write_text
from fakedev.exporters.conform import grouped_differences
from fakedev.exporters.settings.catalog import Catalog, named_identity
from fakedev.schema.files import Files
from fakedev.schema.options import Operand, command
from fakedev.schema.places import Report


@command(
    "fakedev diff",
    __doc__,
    Operand("old", "A", "identity of the catalog (dcgm@4.8.2), or a file"),
    Operand("new", "B", "the other one"),
)
def diff(options: Namespace) -> None:
    """Print the differences: of each kind a line with its name, then a line for each.

    :raises ConfigurationError: when there is no such identity.
    """
    report = Report()
    catalog = Catalog(Files(environ=os.environ), report)
    old, new = (
        named_identity(name, catalog, report, f"fakedev diff: {which}")
        for name, which in ((options.old, "A"), (options.new, "B"))
    )
    write_text(sys.stderr, "".join(f"{note}\n" for note in report.notes))
    groups = grouped_differences(old, new).items()
    write_text(sys.stdout, "".join(f"{kind}:\n" + "".join(f"  {line}\n" for line in lines) for kind, lines in groups))
