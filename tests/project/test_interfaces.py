"""The interfaces of fakedev: each has an implementer, and implementers have the methods that they declare."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import pytest
from zope.interface import implementedBy
from zope.interface.interface import InterfaceClass
from zope.interface.verify import verifyClass, verifyObject

from fakedev.replay.folder import TraceFolder
from fakedev.replay.table_reader import Lenience
from fakedev.replay.trace import WHOLE_TRACE, IFolder
from fakedev.runtime.reactor import IReactor, program_reactor
from tests.support.source.source_tree import modules
from tests.support.trace_files import MadeFolder


def users_of_interfaces() -> list[ModuleType]:
    """The modules that declare or implement interfaces."""
    return [
        import_module(module.name)
        for module in modules(word="zope.interface")
        if any(found.name.startswith("zope.interface.") for found in module.imports)
    ]


def test_reactor() -> None:
    """Twisted's reactor has all parts of the type that annotations name."""
    assert [part for part in IReactor.__bases__ if not part.providedBy(program_reactor())] == []


def test_folders() -> None:
    """The folder of a trace on the disk, and that of tests, have the attribute as well."""
    for folder in (TraceFolder("folder", Lenience(), WHOLE_TRACE), MadeFolder({})):
        assert verifyObject(IFolder, folder)


@pytest.mark.slow
def test_implementers() -> None:
    """Their classes have all methods of their interfaces with the same parameters."""
    declared: set[InterfaceClass] = set()
    implemented: set[InterfaceClass] = set()
    for module in users_of_interfaces():
        for value in vars(module).values():
            if getattr(value, "__module__", "") != module.__name__:
                continue
            if isinstance(value, InterfaceClass):
                declared.add(value)
            elif isinstance(value, type):
                for interface in implementedBy(value).flattened():
                    if interface.__module__.startswith("fakedev."):
                        implemented.add(interface)
                        verifyClass(interface, value)
    assert declared
    assert declared <= implemented
