"""The tables of records in doc/nvml.md.

Run it at the root of the project to bring them up to date:
``PYTHONPATH=. python -m tests.support.documents.nvml_layout``.
"""

from __future__ import annotations

from fakedev.nvml.records import RECORDS
from tests.support.documents.sections import between
from tests.support.paths import DOCUMENTS

PAGE = DOCUMENTS / "nvml.md"
_BEGIN, _END = "<!-- nvml layout -->\n", "<!-- end of nvml layout -->"


def tables() -> str:
    """A table for each record."""
    lines: list[str] = []
    for record in RECORDS:
        lines += [f"#### {record.doc.rstrip('.')}: {record.size} bytes", "", "| at | field | unit | what |"]
        lines.append("|---|---|---|---|")
        for field in record.fields:
            kind = f"text of {field.text_bytes} bytes" if field.text_bytes else field.unit or "-"
            words = ", ".join(filter(None, (field.doc, field.source)))
            lines.append(f"| {record.offsets[field.name]} | `{field.name}` | {kind} | {words} |")
        lines.append("")
    return "\n".join(lines)


def with_tables(page: str) -> str:
    """The page with the tables as they are now."""
    return between(page, _BEGIN, _END, "\n" + tables())


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
