"""What is generated from protos/ is up to date, and declares what TensorFlow writes."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorSet,
)

from protos import compile as compiler
from protos import stubs

SCHEMA = Path(__file__).resolve().parents[2] / "shared" / "schema.json"

# Fields of older releases that TensorFlow has reserved since and protos/ declares, deprecated.
REVIVED_FIELDS = {
    "tensorflow.FunctionDef.node": 2,
    "tensorflow.TrackableObjectGraph.TrackableObject.SerializedTensor.optional_restore": 4,
}
REVIVED_MESSAGE = "tensorflow.FunctionDef.Node"
# So they are missing from the reserved numbers and names.
LIFTED = {
    "tensorflow.FunctionDef reserved 2-2",
    "tensorflow.TrackableObjectGraph.TrackableObject.SerializedTensor reserved 4-4",
    "tensorflow.TrackableObjectGraph.TrackableObject.SerializedTensor reserved optional_restore",
}

Facts = dict[str, Any]


@pytest.fixture(scope="module")
def descriptor_set() -> FileDescriptorSet:
    return FileDescriptorSet.FromString(compiler.DESCRIPTORS.read_bytes())


def test_sums_are_those_of_the_files() -> None:
    assert compiler.SUMS.read_text(encoding="utf-8") == compiler.sums()


def test_sums_name_every_source_and_result() -> None:
    named = [line.split("  ")[1] for line in compiler.SUMS.read_text(encoding="utf-8").splitlines()]
    assert sum(name.endswith(".proto") for name in named) == 38
    assert "ckpttool/pb/descriptors.binpb" in named
    assert "ckpttool/pb/__init__.pyi" in named


def test_stubs_are_those_of_the_descriptors() -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in compiler.results()[1:]}
    assert written == stubs.render(compiler.DESCRIPTORS.read_bytes())


def test_descriptors_hold_every_source(descriptor_set: FileDescriptorSet) -> None:
    sources = {path.relative_to(compiler.PROTOS).as_posix() for path in compiler.sources()}
    google = {"google/protobuf/any.proto", "google/protobuf/wrappers.proto"}
    assert {file.name for file in descriptor_set.file} == sources | google


def test_descriptors_need_no_other_pool(descriptor_set: FileDescriptorSet) -> None:
    seen: set[str] = set()
    for file in descriptor_set.file:
        assert seen.issuperset(file.dependency), file.name
        assert not file.HasField("source_code_info")
        seen.add(file.name)


@pytest.mark.parametrize("path", compiler.sources(), ids=lambda path: path.stem)
def test_declarations_say_what_they_are(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("// ")
    for above, line in itertools.pairwise(lines):
        if line.lstrip().startswith(("message ", "enum ")):
            assert above.lstrip().startswith("// "), line
    assert max(map(len, lines)) <= 100


@pytest.mark.skipif(not SCHEMA.exists(), reason="there is no ../shared/schema.json to compare with")
def test_descriptors_equal_the_schema(descriptor_set: FileDescriptorSet) -> None:
    described = json.loads(SCHEMA.read_text(encoding="utf-8"))
    theirs = schema_facts(described["files"])
    ours = descriptor_facts(descriptor_set)
    added = {fact for fact in ours if fact not in theirs}
    revived = set(REVIVED_FIELDS) | {fact for fact in added if within(fact, REVIVED_MESSAGE)}
    assert added == revived
    assert {fact for fact in theirs if fact not in ours} == LIFTED
    assert {
        fact: ours[fact] for fact in theirs if fact in ours and ours[fact] != theirs[fact]
    } == {}


@pytest.mark.skipif(not SCHEMA.exists(), reason="there is no ../shared/schema.json to compare with")
def test_revived_declarations_equal_those_of_old_releases(
    descriptor_set: FileDescriptorSet,
) -> None:
    old = json.loads(SCHEMA.read_text(encoding="utf-8"))["legacy_differences"]
    ours = descriptor_facts(descriptor_set)
    for entry in old:
        if entry["kind"] == "field gone in 2.21":
            name = f"{entry['message']}.{entry['field']['name']}"
            assert REVIVED_FIELDS[name] == entry["field"]["number"]
            assert ours[name] == {**schema_field(entry["field"]), "deprecated": True}
    (message,) = [e["definition"] for e in old if e.get("name") == REVIVED_MESSAGE]
    theirs: Facts = {}
    add_schema_message(theirs, message)
    assert {fact: ours[fact] for fact in ours if within(fact, REVIVED_MESSAGE)} == theirs


def within(fact: str, message: str) -> bool:
    return fact == message or fact.startswith((f"{message}.", f"{message} "))


def schema_facts(files: dict[str, Any]) -> Facts:
    facts: Facts = {}
    for name, file in files.items():
        facts[name] = {
            "package": file["package"],
            "syntax": file["syntax"],
            "imports": sorted(file["imports"]),
            "public": sorted(file.get("public_imports", [])),
        }
        for message in file["messages"]:
            add_schema_message(facts, message)
        for enum in file["enums"]:
            add_schema_enum(facts, enum)
    return facts


def add_schema_message(facts: Facts, message: dict[str, Any]) -> None:
    name = message["full_name"]
    facts[name] = {
        "map_entry": message.get("map_entry", False),
        "oneofs": sorted(message.get("oneofs", [])),
    }
    for field in message["fields"]:
        facts[f"{name}.{field['name']}"] = schema_field(field)
    add_reserved(facts, name, message.get("reserved_ranges", []), message.get("reserved_names", []))
    for nested in message.get("messages", []):
        add_schema_message(facts, nested)
    for enum in message.get("enums", []):
        add_schema_enum(facts, enum)


def schema_field(field: dict[str, Any]) -> Facts:
    return {
        "number": field["number"],
        "label": field["label"],
        "type": field["type"],
        "type_name": field.get("type_name", ""),
        "oneof": field.get("oneof", ""),
        "packed": field.get("packed", False),
        "deprecated": field.get("deprecated", False),
        "optional": field.get("proto3_optional", False),
        "map": field.get("map"),
    }


def add_schema_enum(facts: Facts, enum: dict[str, Any]) -> None:
    facts[enum["full_name"]] = {value["name"]: value["number"] for value in enum["values"]}
    add_reserved(facts, enum["full_name"], enum.get("reserved_ranges", []), [])


def add_reserved(facts: Facts, name: str, ranges: list[list[int]], names: list[str]) -> None:
    for first, last in ranges:
        facts[f"{name} reserved {first}-{last}"] = True
    for reserved in names:
        facts[f"{name} reserved {reserved}"] = True


def descriptor_facts(descriptor_set: FileDescriptorSet) -> Facts:
    facts: Facts = {}
    for file in descriptor_set.file:
        syntax = file.syntax or "proto2"
        facts[file.name] = {
            "package": file.package,
            "syntax": syntax,
            "imports": sorted(file.dependency),
            "public": sorted(file.dependency[index] for index in file.public_dependency),
        }
        for message in file.message_type:
            add_message(facts, message, file.package, syntax)
        for enum in file.enum_type:
            add_enum(facts, enum, file.package)
    return facts


def add_message(facts: Facts, message: DescriptorProto, scope: str, syntax: str) -> None:
    name = f"{scope}.{message.name}"
    entries = {
        f".{name}.{nested.name}": nested
        for nested in message.nested_type
        if nested.options.map_entry
    }
    synthetic = {field.oneof_index for field in message.field if field.proto3_optional}
    oneofs = [oneof.name for oneof in message.oneof_decl]
    facts[name] = {
        "map_entry": message.options.map_entry,
        "oneofs": sorted(oneof for index, oneof in enumerate(oneofs) if index not in synthetic),
    }
    for field in message.field:
        in_oneof = field.HasField("oneof_index") and not field.proto3_optional
        facts[f"{name}.{field.name}"] = {
            "number": field.number,
            "label": FieldDescriptorProto.Label.Name(field.label)[6:].lower(),
            "type": type_of(field),
            "type_name": field.type_name[1:],
            "oneof": oneofs[field.oneof_index] if in_oneof else "",
            "packed": is_packed(field, syntax),
            "deprecated": field.options.deprecated,
            "optional": field.proto3_optional,
            "map": map_of(entries[field.type_name]) if field.type_name in entries else None,
        }
    ranges = [[reserved.start, reserved.end - 1] for reserved in message.reserved_range]
    add_reserved(facts, name, ranges, list(message.reserved_name))
    for nested in message.nested_type:
        add_message(facts, nested, name, syntax)
    for enum in message.enum_type:
        add_enum(facts, enum, name)


def type_of(field: FieldDescriptorProto) -> str:
    return FieldDescriptorProto.Type.Name(field.type)[5:].lower()


def is_packed(field: FieldDescriptorProto, syntax: str) -> bool:
    if field.label != FieldDescriptorProto.LABEL_REPEATED:
        return False
    if type_of(field) in ("string", "bytes", "message"):
        return False
    return field.options.packed if field.options.HasField("packed") else syntax == "proto3"


def map_of(entry: DescriptorProto) -> Facts:
    key, value = entry.field
    facts = {"key_type": type_of(key), "value_type": type_of(value)}
    if value.type_name:
        facts["value_type_name"] = value.type_name[1:]
    return facts


def add_enum(facts: Facts, enum: EnumDescriptorProto, scope: str) -> None:
    name = f"{scope}.{enum.name}"
    facts[name] = {value.name: value.number for value in enum.value}
    ranges = [[reserved.start, reserved.end] for reserved in enum.reserved_range]
    add_reserved(facts, name, ranges, list(enum.reserved_name))
