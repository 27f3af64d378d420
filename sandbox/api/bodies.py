"""Request bodies: size, media type, JSON or YAML, and agreement with the path."""

from __future__ import annotations

import json

import orjson
import yaml

from sandbox.api import protobuf
from sandbox.api.messages import Request
from sandbox.api.resources import Resource
from sandbox.api.status import StatusError, bad_request, too_large, unsupported_media_type
from sandbox.jsontypes import JsonObject, JsonValue

LIMIT = 3 * 1024 * 1024
YAML = "application/yaml"
ACCEPTED = ("application/json", YAML)


def media_type(request: Request) -> str:
    """The content type without parameters; JSON when none is given."""
    return (request.header("content-type") or "application/json").split(";", 1)[0].strip().lower()


def check_size(request: Request) -> None:
    """413 for a body over 3 MiB."""
    if len(request.body) > LIMIT:
        raise too_large()


class _Loader(yaml.SafeLoader):
    """YAML as JSON knows it: dates stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def yaml_value(data: bytes) -> JsonValue:
    """A YAML document as a JSON value. Raises ``yaml.YAMLError``."""
    return yaml.load(data, Loader=_Loader)


def decode(data: bytes, kind: str) -> JsonValue:
    """JSON; 400 with the API server's form of words when it is none."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        text = f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; "
        raise bad_request(text + f"json parse error: {error}") from None


def read_object(request: Request, kind: str) -> JsonObject:
    """The body of a create or update as an object."""
    check_size(request)
    kind_of_body = media_type(request)
    if kind_of_body == protobuf.MEDIA_TYPE:
        return protobuf.decode(request.body)
    if kind_of_body not in ACCEPTED:
        raise unsupported_media_type((*ACCEPTED, protobuf.MEDIA_TYPE))
    if kind_of_body == YAML:
        try:
            value = yaml_value(request.body)
        except yaml.YAMLError as error:
            raise bad_request(f"error converting YAML to JSON: {error}") from None
    else:
        value = decode(request.body, kind)
    if not isinstance(value, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {kind}): json: cannot unmarshal")
    return value


def duplicate_fields(data: bytes) -> list[str]:
    """The dotted paths of members that a JSON document gives twice, for strict decoding."""
    found: list[tuple[JsonObject, str]] = []

    def collect(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
        members: JsonObject = {}
        for key, value in pairs:
            if key in members:
                found.append((members, key))
            members[key] = value
        return members

    try:
        root = json.loads(data, object_pairs_hook=collect)
    except (ValueError, RecursionError):
        return []
    return [_path_of(root, holder, key) for holder, key in found] if found else []


def _path_of(root: JsonValue, holder: JsonObject, key: str) -> str:
    stack: list[tuple[JsonValue, str]] = [(root, "")]
    while stack:
        value, path = stack.pop()
        if value is holder:
            return f"{path}.{key}" if path else key
        if isinstance(value, dict):
            stack.extend((child, f"{path}.{name}" if path else name) for name, child in value.items())
        elif isinstance(value, list):
            stack.extend((child, f"{path}[{index}]") for index, child in enumerate(value))
    return key


def check_type(resource: Resource, obj: JsonObject) -> None:
    """Kind and version must be those of the path; built-in kinds may leave them out (they are filled in)."""
    kind, api_version = obj.get("kind"), obj.get("apiVersion")
    if not resource.custom:
        kind = obj.setdefault("kind", resource.kind) or resource.kind
        api_version = obj.setdefault("apiVersion", resource.api_version) or resource.api_version
    if not kind:
        raise bad_request(f"Object 'Kind' is missing in '{orjson.dumps(obj).decode()}'")
    if not api_version:
        raise bad_request(f"Object 'apiVersion' is missing in '{orjson.dumps(obj).decode()}'")
    if api_version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if kind != resource.kind:
        raise cannot_handle(
            resource, str(kind), f"the kind in the data does not match the expected kind {resource.kind}"
        )


def cannot_handle(resource: Resource, kind: str, why: str) -> StatusError:
    """400 in the words of a failed decode."""
    return bad_request(f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {why}')
