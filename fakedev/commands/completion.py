"""``fakedev completion SHELL``: prints what makes a shell complete fakedev's subcommands and options.

The shell asks fakedev for each completion, and fakedev reads its own help, so that nothing is declared twice.
"""

from __future__ import annotations

import io
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from typing import Final

from fakedev.base.console import write_text
from fakedev.schema.options import Operand, command

#: What the scripts give before the words of the line.
WORDS: Final = "words"
#: For each shell, its script; it also completes files.
SCRIPTS: Final = {
    "bash": r"""
_fakedev() {
    mapfile -t COMPREPLY < <(compgen -W "$(fakedev completion words "${COMP_WORDS[@]:1:COMP_CWORD-1}")" -- "$2")
}
complete -o default -F _fakedev fakedev
""",
    "zsh": r"""
#compdef fakedev
_fakedev() {
    local -a found
    found=(${(f)"$(fakedev completion words "${(@)words[2,CURRENT-1]}")"})
    compadd -a found
    _files
}
compdef _fakedev fakedev
""",
    "fish": r"""
complete -c fakedev -a '(fakedev completion words (commandline -opc)[2..])'
""",
}
_OPTION: Final = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*+")
_NAME: Final = re.compile(r"(?m)^  ([a-z][\w-]*+) ")
_LIST: Final = re.compile(r"(?m)^(Each subcommand|[A-Z][\w ]++:$)")


def completion(arguments: Sequence[str]) -> int:
    """Print a script, or the words that may follow others.

    :returns: 0.
    """
    if arguments[:1] == [WORDS]:
        from fakedev.commands.main import main  # noqa: PLC0415 - it imports this module

        write_text(sys.stdout, "".join(f"{word}\n" for word in words_after(arguments[1:], main)))
        return 0
    return _script(arguments)


@command(
    "fakedev completion",
    "Prints a script. bash: source <(fakedev completion bash). zsh: the same. fish: fakedev completion fish | source.",
    Operand("shell", "SHELL", ", ".join(SCRIPTS), choices=tuple(SCRIPTS)),
)
def _script(options: Namespace) -> None:
    write_text(sys.stdout, SCRIPTS[options.shell].lstrip("\n"))


def words_after(words: Sequence[str], main: Callable[[Sequence[str]], int]) -> list[str]:
    """The subcommands and options that may follow some words, by the help of fakedev.

    :param words: of the command line, after ``fakedev``.
    :param main: runs fakedev; it is asked for help only.
    """
    subcommands: list[str] = []
    for word in words:
        if word.startswith("-"):
            break
        subcommands.append(word)
    while True:
        text = _help(subcommands, main)
        if text or not subcommands:
            break
        subcommands.pop()  # an argument, as a file
    names = _NAME.findall(text) if subcommands == list(words) and _LIST.search(text) else []
    return list(dict.fromkeys([*names, *_options(text)]))


def _help(subcommands: Sequence[str], main: Callable[[Sequence[str]], int]) -> str:
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(io.StringIO()), suppress(SystemExit):
        main([*subcommands, "--help"])
    return printed.getvalue()


def _options(text: str) -> Iterable[str]:
    """The options of a help: they begin its lines."""
    for line in text.splitlines():
        if line.startswith("  -"):
            yield from _OPTION.findall(line.split("   ")[0])
