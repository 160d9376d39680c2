"""``fakedev diff``: the differences between the pages of two identities, by kind."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from fakedev.commands.console import write_text
from fakedev.commands.parser import Parser
from fakedev.config.catalog import Catalog
from fakedev.config.identities.choice import named_identity
from fakedev.config.schema.files import Files
from fakedev.config.schema.nodes import Report
from fakedev.exposition.identity_diff import grouped_differences


def diff(arguments: Sequence[str]) -> int:
    """Print the differences: of each kind a line with its name, then a line for each.

    :returns: 0.
    :raises ConfigurationError: when there is no such identity.
    """
    parser = Parser("fakedev diff", description=__doc__)
    parser.add_argument("old", metavar="A", help="identity of the catalog (dcgm@4.8.2), or a file")
    parser.add_argument("new", metavar="B", help="the other one")
    options = parser.parse_args(list(arguments))
    report = Report()
    catalog = Catalog(Files(environ=os.environ), report)
    old, new = (
        named_identity(name, catalog, report, f"fakedev diff: {which}")
        for name, which in ((options.old, "A"), (options.new, "B"))
    )
    for note in report.notes:
        print(note, file=sys.stderr)
    groups = grouped_differences(old, new).items()
    write_text(sys.stdout, "".join(f"{kind}:\n" + "".join(f"  {line}\n" for line in lines) for kind, lines in groups))
    return 0
