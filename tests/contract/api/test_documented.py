"""Every message, field, oneof, enum, enum value, service and RPC of the six packages carries a comment of its own."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

PROTOS = Path(__file__).resolve().parents[3] / "protos"
PACKAGES = ["common", "pinning", "canary", "traffic", "gc", "gateway"]

SourcePath = tuple[int, ...]
Named = tuple[str, SourcePath]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FileDescriptorProto]:
    """The six files with their source information, by package word."""
    return compile_files(PROTOS, tmp_path_factory.mktemp("descriptors") / "set.binpb")


def compile_files(root: Path, out: Path) -> dict[str, FileDescriptorProto]:
    names = [f"ome/{package}/v1/{package}.proto" for package in PACKAGES if (root / "ome" / package).exists()]
    include = str(resources.files("grpc_tools") / "_proto")
    command = ["protoc", f"-I{root}", f"-I{include}", "--include_source_info", f"--descriptor_set_out={out}", *names]
    assert protoc.main(command) == 0
    compiled = FileDescriptorSet.FromString(out.read_bytes())
    return {file.package.split(".")[1]: file for file in compiled.file}


def enum_parts(enum: EnumDescriptorProto, name: str, path: SourcePath) -> Iterator[Named]:
    yield f"enum {name}", path
    for index, value in enumerate(enum.value):
        yield f"value {name}.{value.name}", (*path, 2, index)


def message_parts(message: DescriptorProto, name: str, path: SourcePath) -> Iterator[Named]:
    yield f"message {name}", path
    for index, field in enumerate(message.field):
        yield f"field {name}.{field.name}", (*path, 2, index)
    synthetic = {field.oneof_index for field in message.field if field.proto3_optional}
    for index, oneof in enumerate(message.oneof_decl):
        if index not in synthetic:
            yield f"oneof {name}.{oneof.name}", (*path, 8, index)
    for index, nested in enumerate(message.nested_type):
        yield from message_parts(nested, f"{name}.{nested.name}", (*path, 3, index))
    for index, enum in enumerate(message.enum_type):
        yield from enum_parts(enum, f"{name}.{enum.name}", (*path, 4, index))


def parts(file: FileDescriptorProto) -> Iterator[Named]:
    """What has to be documented in `file`, with its path in the source information."""
    for index, message in enumerate(file.message_type):
        yield from message_parts(message, message.name, (4, index))
    for index, enum in enumerate(file.enum_type):
        yield from enum_parts(enum, enum.name, (5, index))
    for index, service in enumerate(file.service):
        yield f"service {service.name}", (6, index)
        for number, method in enumerate(service.method):
            yield f"rpc {service.name}.{method.name}", (6, index, 2, number)
    yield "package", (2,)


def undocumented(file: FileDescriptorProto) -> list[str]:
    said = {tuple(place.path): place.leading_comments.strip() for place in file.source_code_info.location}
    return [name for name, path in parts(file) if len(said.get(path, "")) < 4]


@pytest.mark.parametrize("package", PACKAGES)
def test_everything_is_documented(files: dict[str, FileDescriptorProto], package: str) -> None:
    assert undocumented(files[package]) == []


def test_the_check_finds_what_lacks_a_comment(tmp_path: Path) -> None:
    folder = tmp_path / "ome" / "gc" / "v1"
    folder.mkdir(parents=True)
    (folder / "gc.proto").write_text(
        'syntax = "proto3";\npackage ome.gc.v1;\n'
        "// Said.\nmessage A {\n  string told = 1; // trailing comments do not count\n"
        "  // Said.\n  oneof part {\n    string x = 2;\n  }\n}\n"
        "enum E {\n  // Said.\n  E_UNSPECIFIED = 0;\n}\n"
    )
    found = undocumented(compile_files(tmp_path, tmp_path / "set.binpb")["gc"])
    assert found == ["field A.told", "field A.x", "enum E", "package"]


def test_no_map_fields_and_no_struct(files: dict[str, FileDescriptorProto]) -> None:
    for file in files.values():
        assert "google/protobuf/struct.proto" not in file.dependency
        for message in file.message_type:
            assert not any(nested.options.map_entry for nested in message.nested_type), message.name


def test_secrets_are_redacted_when_a_message_is_printed(files: dict[str, FileDescriptorProto]) -> None:
    secret = next(message for message in files["canary"].message_type if message.name == "Secret")
    value = next(field for field in secret.field if field.name == "value")
    assert value.options.debug_redact
