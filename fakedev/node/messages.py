"""Protobuf messages from compact tables of field numbers; no generated code is needed.

A table has one line for each message: ``Name: field=1 string, others=2 *Device, labels=3 map``. Types are ``string``,
``bool``, ``int32``, ``int64``, ``map`` (string to string), ``map:Message`` (string to message), or a message of
the table; ``*`` means repeated. Fields that a table leaves out are skipped when a message is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_TYPES: Final = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
}


def make_messages(package: str, table: str) -> Mapping[str, Any]:
    """The message classes of a table, by name.

    :param package: the protobuf package, as ``v1beta1``.
    :raises ValueError: for a line that is wrong.
    """
    # A pool of its own: another library of the process may have the same messages.
    pool, file = DescriptorPool(), FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for line in filter(None, map(str.strip, table.splitlines())):
        name, colon, fields = line.partition(":")
        if not colon:
            raise ValueError(f"no colon in {line!r}")
        message = file.message_type.add(name=name)
        for each in filter(None, map(str.strip, fields.split(","))):
            _add_field(package, message, each)
    pool.Add(file)  # type: ignore[no-untyped-call, unused-ignore] # has no annotations in some versions
    return {
        message.name: GetMessageClass(pool.FindMessageTypeByName(f"{package}.{message.name}"))
        for message in file.message_type
    }


def _add_field(package: str, message: DescriptorProto, text: str) -> None:
    """Add a field such as ``devices=1 *Device``."""
    declared, _, kind = text.partition(" ")
    name, _, number = declared.partition("=")
    field = message.field.add(name=name, number=int(number), label=FieldDescriptorProto.LABEL_OPTIONAL)
    if kind.startswith("*") or kind.startswith("map"):
        field.label = FieldDescriptorProto.LABEL_REPEATED
    if kind.startswith("map"):
        # On the wire a map is a list of entries.
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        _add_field(package, entry, "key=1 string")
        _add_field(package, entry, f"value=2 {kind.removeprefix('map').removeprefix(':') or 'string'}")
        kind = f"{message.name}.{entry.name}"
    kind = kind.removeprefix("*")
    if kind in _TYPES:
        field.type = _TYPES[kind]
    else:
        field.type = FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = f".{package}.{kind}"
