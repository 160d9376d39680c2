"""Compiles the NVML library from its sources, generates its C header, and writes commands and the module amdsmi.

The library is compiled once for each version of its source. Generated sources: the layout of the file as C
structures, and the functions that are not supported.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Final

from fakedev.base.atomic_files import put_in_place, replace_file
from fakedev.base.errors import CannotWrite, plain_reason
from fakedev.nvml import records as layout

#: How the sources define a function of the interface, maybe by a macro.
_DEFINED: Final = re.compile(r"^(?:NVML_API |NVML_TEXT )(?:[A-Z_]+\()?(nvml[A-Z]\w+)", re.MULTILINE)
#: Functions that are not supported return this.
_NOT_SUPPORTED: Final = 3


def layout_header() -> str:
    """``layout.h``."""
    lines = [
        "/* Generated from fakedev/nvml/records.py. */",
        "#ifndef LAYOUT_H",
        "#define LAYOUT_H",
        "#include <stdint.h>",
        f'#define LAYOUT_MAGIC "{layout.MAGIC.decode()}"',
        f'#define LAYOUT_FILE_NAME "{layout.FILE_NAME}"',
        f"#define LAYOUT_VERSION {layout.VERSION}",
        f"#define DEAD_SECONDS {layout.DEAD_SECONDS:g}",
        f'#define UNANSWERED_SUFFIX "{layout.UNANSWERED_SUFFIX}"',
        f"#define UNANSWERED_BYTES {layout.UNANSWERED_BYTES}",
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
             "    NVML_API name(void); NVML_API name(void) \\",
             f"    {{ static int is_told; tell_unanswered(#name, &is_told); return {_NOT_SUPPORTED}; }}"]  # fmt: skip
    return "\n".join([*lines, *(f"STUB({name})" for name in names if name not in defined), ""])


#: The name by which programs load the library.
SONAME: Final = "libnvidia-ml.so.1"
#: The name by which DCGM loads it where NVML_INJECTION_MODE is set, for tests without a driver.
INJECTED: Final = "libnvml_injection.so.1"
#: The name of the simulated command.
COMMAND: Final = "nvidia-smi"
#: The modules of the commands, which are in one folder.
_MODULES: Final = {"dcgmi": "fakedev.nvml.smi.dcgmi", COMMAND: "fakedev.nvml.smi.main"}
#: The same of AMD's: in a folder of their own, with the module amdsmi.
_AMD_MODULES: Final = {"amd-smi": "fakedev.nvml.amd.amd_smi"}
_NATIVE: Final = Path(__file__).parent / "native"
#: Numbers of a damaged file may be any: sums of them wrap.
OPTIONS: Final = (
    *("-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fwrapv"),
    *("-fPIC", "-fvisibility=hidden", "-pthread"),
)
_OPTIMIZED: Final = ("-O2",)
_LINKED: Final = ("-shared", f"-Wl,-soname,{SONAME}", "-Wl,-z,defs")
#: More of what a compiler says is of no use to who did not write the source.
_MAX_LINES: Final = 20
_BUILD_SECONDS: Final = 120
#: The name of AMD's.
AMD_COMMAND: Final = "amd-smi"
#: The modules and data that a command for containers needs, besides those of its maker.
_PORTABLE: Final = ("base/*.py", "schema/*.py", "fleet/__init__.py", "fleet/spec/*.py", "nvml/*.py", "nvml/smi/*.py")
_OF_MAKER: Final = {COMMAND: ("catalog/nvidia-smi/*",), AMD_COMMAND: ("nvml/amd/*.py", "catalog/amd-smi/*")}
_STARTER: Final = """\
#!/bin/sh
# The simulated {name} of fakedev: an archive of Python, which follows.
if ! command -v python3 > /dev/null; then
    echo "fakedev: the simulated {name} needs Python 3.11 or newer in this container, as python3" >&2
    exit 255
fi
exec python3 -IS "$0" "$@"
"""
_ROOT: Final = Path(__file__).parents[2]
#: The module amdsmi for any program's Python: fakedev itself need not be installed there, and stays off its path.
_AMDSMI: Final = """\
\"\"\"The simulated amdsmi of fakedev.\"\"\"
import sys
if sys.version_info < (3, 11):
    raise ImportError("the simulated amdsmi of fakedev needs Python 3.11 or newer")
sys.path.append({root!r})
try:
    from fakedev.nvml.amd.amdsmi import install
finally:
    sys.path.remove({root!r})
install(__name__, globals())
"""
_MAIN: Final = """\
import sys
if sys.version_info < (3, 11):
    sys.stderr.write("fakedev: the simulated {name} needs Python 3.11 or newer in this container\\n")
    sys.exit(255)
from {module} import main
sys.exit(main(sys.argv[1:]))
"""


#: The branch of the driver whose names the library has, and the branches that it can have the names of.
USUAL_DRIVER: Final = 590
DRIVERS: Final = (535, 550, 570, 580, 590, 595, 610)


class CannotBuild(Exception):
    """The library cannot be compiled; the text says why, and what helps."""


def symbols(driver: int = USUAL_DRIVER) -> list[str]:
    """The names that the library of a driver exports."""
    lines = (_NATIVE / "symbols.txt").read_text(encoding="ascii").splitlines()
    rows = (line.split() for line in lines if line and not line.startswith("#"))
    return [name for name, *first in rows if not first or int(first[0]) <= driver]


def sources(driver: int = USUAL_DRIVER) -> dict[str, str]:
    """All files of the source by name, with the generated ones.

    :param driver: the branch whose names programs find: functions that it does not have are not exported.
    :raises CannotBuild: when a function is defined that the driver does not have.
    """
    files = {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted(_NATIVE.iterdir())
        if path.suffix in (".c", ".h")
    }
    names, defined = symbols(driver), defined_functions(files.values())
    unknown = defined - set(symbols(max(DRIVERS)))
    if unknown:
        raise CannotBuild(f"the driver has no {', '.join(sorted(unknown))}")
    exported = "{ global: " + " ".join(f"{name};" for name in names) + " local: *; };\n"
    return {**files, "layout.h": layout_header(), "stubs.c": stubs(names, defined), "symbols.map": exported}


def compile_library(target: Path, options: Sequence[str] = _OPTIMIZED, driver: int = USUAL_DRIVER) -> None:
    """Compile the library; the file is there as a whole, or not at all.

    :param options: further ones of the compiler.
    :param driver: the branch whose names it has.
    :raises CannotBuild: without a compiler, or when it fails.
    """
    compiler = os.environ.get("CC") or "cc"
    if shutil.which(compiler) is None:
        raise CannotBuild(
            f"there is no C compiler {compiler}: install one (Debian and Ubuntu: apt-get install gcc libc6-dev; "
            "Alpine: apk add gcc musl-dev), or copy the library of another machine: fakedev nvml build --output FILE"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".build-", dir=target.parent) as folder:
            files = sources(driver)
            for name, text in files.items():
                Path(folder, name).write_text(text, encoding="utf-8")
            units = [name for name in files if name.endswith(".c")]
            exported = "-Wl,--version-script,symbols.map"
            done = subprocess.run(
                [compiler, *OPTIONS, *options, *_LINKED, exported, "-o", SONAME, *units],
                cwd=folder, capture_output=True, text=True, errors="replace", timeout=_BUILD_SECONDS, check=False,
            )  # fmt: skip
            if done.returncode:
                lines = done.stderr.splitlines()[:_MAX_LINES]
                raise CannotBuild("\n".join([f"{compiler} failed with {done.returncode}:", *lines]))
            put_in_place(Path(folder, SONAME), target)
    except subprocess.TimeoutExpired:
        raise CannotBuild(f"{compiler} took over {_BUILD_SECONDS} s") from None
    except OSError as reason:
        raise CannotBuild(f"{reason.filename or target}: {plain_reason(reason)}") from None


def library_folder(driver: int = USUAL_DRIVER) -> str:
    """The name of the folder of the library, for this version of the source and this kind of machine."""
    digest = hashlib.sha256()
    for name, text in sources(driver).items():
        digest.update(f"{name}\0{text}\0".encode())
    digest.update("\0".join((*OPTIONS, *_OPTIMIZED, platform.machine(), platform.libc_ver()[0])).encode())
    return f"nvml-{digest.hexdigest()[:16]}"


def built_library(driver: int = USUAL_DRIVER) -> Path:
    """The library: that of this installation, as in an image, or that in the user's cache, compiled if need be.

    :raises CannotBuild: when it is not there, and cannot be compiled.
    """
    library = _place(library_folder(driver), SONAME)
    if not library.is_file():
        compile_library(library, driver=driver)
    with suppress(OSError):  # it is there, or the folder is an image's
        library.with_name(INJECTED).symlink_to(SONAME)
    return library


def _place(folder: str, name: str) -> Path:
    """A file of this installation if it is there, as in an image, else one in the user's cache.

    :raises CannotBuild: when the user may not look there.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    places = [Path(base, "fakedev", folder, name) for base in (os.path.join(sys.prefix, "share"), cache)]
    try:
        return next(filter(Path.is_file, places), places[-1])
    except OSError as reason:
        raise CannotBuild(f"{reason.filename or places[-1]}: {plain_reason(reason)}") from None


def built_command() -> Path:
    """The command nvidia-smi, beside dcgmi: scripts with the paths of this interpreter and package, written if need be.

    :raises CannotBuild: when they cannot be written.
    """
    return _written("nvidia-smi", _scripts(_MODULES)) / COMMAND


def built_amdsmi() -> Path:
    """The folder with the command amd-smi and the module amdsmi, written if need be.

    :raises CannotBuild: when it cannot be written.
    """
    return _written("amdsmi", {**_scripts(_AMD_MODULES), "amdsmi/__init__.py": _AMDSMI.format(root=str(_ROOT))})


def _scripts(modules: Mapping[str, str]) -> dict[str, str]:
    # Without site, which would read what is installed, they start in half the time.
    started = f"exec {shlex.quote(sys.executable)} -IS -c "
    found = f"import sys; sys.path.insert(0, {str(_ROOT)!r}); "
    return {
        name: f"#!/bin/sh\n# The simulated {name} of fakedev.\n{started}"
        f"""{shlex.quote(f"{found}from {module} import main; sys.exit(main(sys.argv[1:]))")} "$@"\n"""
        for name, module in modules.items()
    }


def _written(kind: str, contents: Mapping[str, str]) -> Path:
    """The folder with some files, whose name follows from them."""
    folder = f"{kind}-{hashlib.sha256(''.join(contents.values()).encode()).hexdigest()[:16]}"
    try:
        for name, content in contents.items():
            target = _place(folder, name)
            if not target.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                replace_file(target, content.encode(), 0o755)
    except OSError as reason:
        raise CannotBuild(f"{reason.filename or target}: {plain_reason(reason)}") from None
    except CannotWrite as reason:
        raise CannotBuild(str(reason)) from None
    return target.parents[name.count("/")]


def portable_command(name: str = COMMAND) -> bytes:
    """A command as one file with all that it needs, for containers that have Python 3.11 or newer.

    :param name: ``COMMAND`` or ``AMD_COMMAND``.
    """
    package = Path(__file__).parents[1]
    sources = (path for folder in (*_PORTABLE, *_OF_MAKER[name]) for path in package.glob(folder))
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in (package / "__init__.py", *sources):
            # Dates would make another file of the same content.
            entry = zipfile.ZipInfo(f"fakedev/{path.relative_to(package).as_posix()}")
            file.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
        main = _MAIN.format(name=name, module={**_MODULES, **_AMD_MODULES}[name])
        file.writestr(zipfile.ZipInfo("__main__.py"), main)
    # Python reads an archive from its end: what is before it is the shell's.
    return _STARTER.format(name=name).encode() + archive.getvalue()
