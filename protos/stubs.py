"""Turn a descriptor set into type stubs, so that a type checker knows the fields of messages.

The classes exist at run time only, when `ckpttool.pb.pool` makes them; apart from `__init__.pyi`
the stubs have no modules beside them. Each holds the messages of one part of the schema.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

from ckpttool.pb import PACKAGES

# The first match of the beginning of a file name counts.
_PARTS = (
    ("tensorflow/core/framework/tensor", "tensor"),
    ("tensorflow/core/framework/types", "tensor"),
    ("tensorflow/core/framework/resource_handle", "tensor"),
    ("tensorflow/core/framework/dataset", "tensor"),
    ("tensorflow/core/framework/versions", "tensor"),
    ("tensorflow/core/framework/op_def", "op"),
    ("tensorflow/core/framework/attr_value", "op"),
    ("tensorflow/core/framework/full_type", "op"),
    ("tensorflow/core/framework/", "graph"),
    ("tensorflow/core/protobuf/tensor_bundle", "checkpoint"),
    ("tensorflow/core/protobuf/trackable_object_graph", "checkpoint"),
    ("tensorflow/core/util/saved_tensor_slice", "checkpoint"),
    ("tensorflow/python/training/checkpoint_state", "checkpoint"),
    ("tensorflow/core/protobuf/saved_object_graph", "object"),
    ("tensorflow/core/protobuf/struct", "object"),
    ("tensorflow/core/protobuf/control_flow", "collection"),
    ("tensorflow/core/protobuf/queue_runner", "collection"),
    ("tensorflow/core/protobuf/", "model"),
    ("tensorflow/contrib/", "collection"),
    ("tensorflow/python/keras/", "keras"),
    ("tensorflow/tools/proto_splitter/", "splitter"),
    ("google/protobuf/", "google"),
)

_NOTICE = "# Written by protos/compile.py: change the .proto files instead.\n"
_WIDTH = 100
_REPEATED = FieldDescriptorProto.LABEL_REPEATED
_MESSAGE = FieldDescriptorProto.TYPE_MESSAGE
_SCALARS = {
    FieldDescriptorProto.TYPE_DOUBLE: "float",
    FieldDescriptorProto.TYPE_FLOAT: "float",
    FieldDescriptorProto.TYPE_BOOL: "bool",
    FieldDescriptorProto.TYPE_STRING: "str",
    FieldDescriptorProto.TYPE_BYTES: "bytes",
}
# Where a name in the text of a class comes from, in the order of import lines.
_ORIGINS = {
    "Iterable": "collections.abc",
    "Mapping": "collections.abc",
    "ClassVar": "typing",
    "MessageMap": "google.protobuf.internal.containers",
    "ScalarMap": "google.protobuf.internal.containers",
    "RepeatedCompositeFieldContainer as Messages": "google.protobuf.internal.containers",
    "RepeatedScalarFieldContainer as Scalars": "google.protobuf.internal.containers",
    "Message": "google.protobuf.message",
}


@dataclass(frozen=True, slots=True)
class _Member:
    """A field as attribute and as argument of the constructor."""

    name: str
    attribute: str
    argument: str
    assignable: bool


def render(descriptor_set: bytes) -> dict[str, str]:
    """Return the text of each stub file by its name.

    Args:
        descriptor_set: a serialized FileDescriptorSet.
    """
    files = FileDescriptorSet.FromString(descriptor_set).file
    part_of = {
        f"{file.package}.{message.name}": _part(file)
        for file in files
        for message in file.message_type
    }
    stubs = {"__init__.pyi": _package(part_of)}
    for part in sorted(set(part_of.values())):
        writer = _Writer(part, part_of)
        classes = [
            "".join(writer.class_lines(message, f"{file.package}.", ""))
            for file in files
            if _part(file) == part
            for message in file.message_type
        ]
        stubs[f"_{part}_messages.pyi"] = writer.file("\n".join(classes))
    return stubs


def _part(file: FileDescriptorProto) -> str:
    return next((part for start, part in _PARTS if file.name.startswith(start)), "")


def _module(part: str) -> str:
    return f"ckpttool.pb._{part}_messages"


def _package(part_of: dict[str, str]) -> str:
    """Return `__init__.pyi`: every message under its short name, where the first package wins."""
    home: dict[str, str] = {}
    for package in PACKAGES:
        for full_name, part in part_of.items():
            owner, _, name = full_name.rpartition(".")
            if owner == package:
                home.setdefault(name, part)
    ordered = sorted(home, key=lambda name: (home[name], name.lower()))
    imports = "".join(_import(_module(home[name]), [f"{name} as {name}"]) for name in ordered)
    return (
        f"{_NOTICE}\nfrom google.protobuf.message import Message\n\n{imports}\n"
        "PACKAGES: tuple[str, ...]\n\n"
        "def message_class(full_name: str) -> type[Message]: ...\n"
    )


class _Writer:
    """Writes the classes of one part, and remembers which others they refer to."""

    def __init__(self, part: str, part_of: dict[str, str]) -> None:
        self._part = part
        self._part_of = part_of
        self._outside: set[tuple[str, str]] = set()

    def file(self, classes: str) -> str:
        """Return the whole text of the stub around its classes."""
        blocks = [_NOTICE]
        for modules in (("collections.abc", "typing"), tuple(_ORIGINS.values())[3:]):
            names = [
                (module, name)
                for name, module in _ORIGINS.items()
                if module in modules and re.search(rf"\b{name.rpartition(' ')[2]}[\[)]", classes)
            ]
            blocks.append(_imports(names))
        blocks.append(_imports([(_module(part), name) for part, name in self._outside]))
        return "\n".join([*filter(None, blocks), classes])

    def class_lines(self, message: DescriptorProto, scope: str, indent: str) -> list[str]:
        """Return the lines of a class, nested ones included.

        Args:
            message: the message.
            scope: what comes before its name in the full name, with the dot.
            indent: white space before each line.
        """
        inner = indent + "    "
        full_name = scope + message.name
        entries = {
            f".{full_name}.{nested.name}": nested
            for nested in message.nested_type
            if nested.options.map_entry
        }
        fields = sorted(message.field, key=lambda field: field.number)
        members = [self._member(field, entries, full_name) for field in fields]
        lines = [f"{indent}class {message.name}(Message):\n"]
        for nested in message.nested_type:
            if not nested.options.map_entry:
                lines += [*self.class_lines(nested, f"{full_name}.", inner), "\n"]
        for enum in message.enum_type:
            lines += [f"{inner}{value.name}: ClassVar[int]\n" for value in enum.value]
        for member in members:
            if member.assignable:
                lines.append(f"{inner}{member.name}: {member.attribute}\n")
        for member in members:
            if not member.assignable:
                lines += _property(member, inner)
        return lines + _constructor(members, inner)

    def _member(
        self, field: FieldDescriptorProto, entries: dict[str, DescriptorProto], scope: str
    ) -> _Member:
        if field.type_name in entries:
            key, value = entries[field.type_name].field
            container = "MessageMap" if value.type == _MESSAGE else "ScalarMap"
            items = f"[{self._type(key, scope)}, {self._type(value, scope)}]"
            return _Member(field.name, container + items, f"Mapping{items}", False)
        name = self._type(field, scope)
        if field.label == _REPEATED:
            container = "Messages" if field.type == _MESSAGE else "Scalars"
            return _Member(field.name, f"{container}[{name}]", f"Iterable[{name}]", False)
        if field.type == _MESSAGE:
            return _Member(field.name, name, f"{name} | None", False)
        return _Member(field.name, name, name, True)

    def _type(self, field: FieldDescriptorProto, scope: str) -> str:
        """Return how the type of a field is written inside the class whose full name is `scope`."""
        if field.type != _MESSAGE:
            return _SCALARS.get(field.type, "int")
        full_name = field.type_name.removeprefix(".")
        outermost = full_name
        while outermost not in self._part_of:
            outermost = outermost.rpartition(".")[0]
        package, _, name = outermost.rpartition(".")
        if self._part_of[outermost] != self._part:
            self._outside.add((self._part_of[outermost], name))
        if full_name.rpartition(".")[0] == scope:
            return full_name.rpartition(".")[2]
        return full_name.removeprefix(f"{package}.")


def _property(member: _Member, indent: str) -> list[str]:
    line = f"{indent}def {member.name}(self) -> {member.attribute}: ..."
    if len(line) > _WIDTH:
        head = f"{indent}def {member.name}(\n{indent}    self,\n"
        line = f"{head}{indent}) -> {member.attribute}: ..."
    return [f"{indent}@property\n", f"{line}\n"]


def _constructor(members: list[_Member], indent: str) -> list[str]:
    """Return the lines of `__init__`, broken as the formatter would."""
    arguments = [f"{member.name}: {member.argument} = ..." for member in members]
    parameters = ", ".join(["self", "*", *arguments] if arguments else ["self"])
    line = f"{indent}def __init__({parameters}) -> None: ..."
    if len(line) <= _WIDTH:
        return [f"{line}\n"]
    line = f"{indent}    {parameters}"
    if len(line) > _WIDTH:
        line = textwrap.indent(",\n".join(["self", "*", *arguments]) + ",", f"{indent}    ")
    return [f"{indent}def __init__(\n", f"{line}\n", f"{indent}) -> None: ...\n"]


def _imports(names: list[tuple[str, str]]) -> str:
    """Return import lines for pairs of module and name, one for each module and renamed name."""
    plain: dict[str, list[str]] = {}
    renamed: list[tuple[str, str]] = []
    for module, name in names:
        if " as " in name:
            renamed.append((module, name))
        else:
            plain.setdefault(module, []).append(name)
    lines = [(module, 0, _import(module, items)) for module, items in plain.items()]
    lines += [(module, 1, _import(module, [name])) for module, name in renamed]
    return "".join(line for _module, _rank, line in sorted(lines))


def _import(module: str, names: list[str]) -> str:
    ordered = sorted(names, key=str.lower)
    line = f"from {module} import {', '.join(ordered)}\n"
    if len(line) <= _WIDTH + 1:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in ordered) + ")\n"
