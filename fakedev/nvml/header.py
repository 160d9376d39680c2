"""The sources that are generated: the layout of the file as C structures, and the functions that are not supported."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from fakedev.spec import nvml_layout as layout

#: How the sources define a function of the interface, maybe by a macro.
_DEFINED: Final = re.compile(r"^(?:NVML_API |NVML_TEXT )(?:[A-Z_]+\()?(nvml[A-Z]\w+)", re.MULTILINE)
#: Functions that are not supported return this.
_NOT_SUPPORTED: Final = 3


def layout_header() -> str:
    """``layout.h``."""
    lines = [
        "/* Generated from fakedev/spec/nvml_layout.py. */",
        "#ifndef LAYOUT_H",
        "#define LAYOUT_H",
        "#include <stdint.h>",
        f'#define LAYOUT_MAGIC "{layout.MAGIC.decode()}"',
        f'#define LAYOUT_FILE_NAME "{layout.FILE_NAME}"',
        f"#define LAYOUT_VERSION {layout.VERSION}",
        f"#define DEAD_SECONDS {layout.DEAD_SECONDS:g}",
        f"#define STATE_OPEN {layout.OPEN}",
        f"#define STATE_REPLACED {layout.REPLACED}",
        "#define ABSENT INT64_MIN",
    ]
    for record in layout.RECORDS:
        lines += [f"struct {record.name} {{", *(f"    {field.c_declaration};" for field in record.fields), "};"]
        texts = [field for field in record.fields if field.text_bytes]
        if texts:
            ends = " ".join(f"record->{field.name}[{field.text_bytes - 1}] = 0;" for field in texts)
            lines.append("/* Texts of a damaged file may have no end. */")
            lines.append(f"static inline void end_texts_of_{record.name}(struct {record.name} *record) {{ {ends} }}")
        lines.append(f'_Static_assert(sizeof(struct {record.name}) == {record.size}, "layout");')
    return "\n".join([*lines, "#endif", ""])


def defined_functions(sources: Iterable[str]) -> set[str]:
    """The functions of the interface that some sources define."""
    return {name for source in sources for name in _DEFINED.findall(source)}


def stubs(names: Iterable[str], defined: set[str]) -> str:
    """The source of all other functions: their arguments do not matter."""
    lines = ["/* Generated: functions that are not supported. */", '#include "nvml.h"', "#define STUB(name) \\",
             f"    NVML_API name(void); NVML_API name(void) {{ return {_NOT_SUPPORTED}; }}"]  # fmt: skip
    return "\n".join([*lines, *(f"STUB({name})" for name in names if name not in defined), ""])


def version_script(names: Iterable[str]) -> str:
    """What the linker exports."""
    return "{ global: " + " ".join(f"{name};" for name in names) + " local: *; };\n"
