"""OpenAPI v2 and v3 of everything that is served, as ``kubectl explain`` and kubectl's own checks read them."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from sandbox.api.messages import JSON, Request, Response, json_response
from sandbox.api.resources import Registry, Resource
from sandbox.api.status import no_resource, not_acceptable
from sandbox.jsontypes import JsonObject

V2_PROTO = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_TITLE, _NUMBER = b"Kubernetes", b"v1.36.0"
_INFO = bytes([0x0A, len(_TITLE)]) + _TITLE + bytes([0x12, len(_NUMBER)]) + _NUMBER
V2_PROTO_BODY = b"\x0a\x032.0\x12" + bytes([len(_INFO)]) + _INFO
"""An ``openapi.v2.Document`` with version and title alone: clients that read it skip their own checks, and the server's
checks and OpenAPI v3 tell them everything."""
GVK = "x-kubernetes-group-version-kind"


def definition_name(resource: Resource) -> str:
    """The name of a kind's schema: a built-in kind's own, otherwise its group turned round, its version and kind."""
    own = getattr(resource.model, "name", None)
    if own is not None:
        return str(own())
    group = resource.group or "io.k8s.api.core"
    turned = ".".join(reversed(group.split("."))) if resource.group else group
    return f"{turned}.{resource.version}.{resource.kind}"


class OpenApi:
    """The documents, made anew when a CRD comes, changes or goes."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._made_for = -1
        self._documents: dict[str, bytes] = {}

    def answer(self, request: Request) -> Response:
        """``/openapi/v2``, the index ``/openapi/v3`` or a document of one group and version."""
        if self._made_for != self._registry.generation:
            self._documents = {}
            self._made_for = self._registry.generation
        path = request.path.rstrip("/")
        if path == "/openapi/v2" and "proto-openapi.spec.v2" in request.header("accept").split(",")[0]:
            return Response(200, V2_PROTO_BODY, {"Content-Type": V2_PROTO})
        accept = request.header("accept")
        if accept and "protobuf" in accept and "json" not in accept.replace("protobuf", "") and "*/*" not in accept:
            raise not_acceptable([JSON])
        if path == "/openapi/v2":
            return json_response(self._document(path))
        if path == "/openapi/v3":
            return json_response(self._index())
        name = path.removeprefix("/openapi/v3/")
        if name not in self._names():
            raise no_resource()
        return json_response(self._document(name))

    def _names(self) -> dict[str, tuple[str, str]]:
        return {
            (f"apis/{group}/{version}" if group else f"api/{version}"): (group, version)
            for group, version in self._registry.group_versions()
        }

    def _document(self, name: str) -> bytes:
        found = self._documents.get(name)
        if found is None:
            group_version = self._names().get(name)
            body = self._v3(*group_version) if group_version else self._v2()
            found = self._documents[name] = orjson.dumps(body)
        return found

    def _index(self) -> JsonObject:
        paths = {}
        for name in self._names():
            tag = hashlib.sha256(self._document(name)).hexdigest().upper()
            paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={tag}"}
        return {"paths": paths}

    def _v3(self, group: str, version: str) -> JsonObject:
        schemas: JsonObject = {}
        paths: JsonObject = {}
        for resource in self._registry.resources(group, version):
            self._describe(resource, schemas, paths)
        info = {"title": "Kubernetes", "version": "v1.36.0"}
        return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}

    def _v2(self) -> JsonObject:
        schemas: JsonObject = {}
        paths: JsonObject = {}
        for resource in self._registry.all():
            self._describe(resource, schemas, paths)
        text = orjson.dumps(schemas).replace(b"#/components/schemas/", b"#/definitions/")
        definitions = {name: _as_v2(schema) for name, schema in orjson.loads(text).items()}
        operations = {path: _operations_v2(item) for path, item in paths.items()}
        info = {"title": "Kubernetes", "version": "v1.36.0"}
        return {"swagger": "2.0", "info": info, "paths": operations, "definitions": definitions}

    def _describe(self, resource: Resource, schemas: JsonObject, paths: JsonObject) -> None:
        name = definition_name(resource)
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        schema = resource.model.schema() if resource.model else {"type": "object"}
        if resource.model:
            schemas.update(resource.model.definitions())
        schemas[name] = {**schema, GVK: [kind]}
        reference = {"$ref": f"#/components/schemas/{name}"}
        schemas[f"{name}List"] = {
            "type": "object",
            "properties": {
                "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
                "items": {"type": "array", "items": reference},
            },
            GVK: [{**kind, "kind": resource.list_name}],
        }  # fmt: skip
        root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        scope = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
        paths[f"{scope}/{resource.plural}"] = {
            "get": _operation("list", kind, reference), "post": _operation("post", kind, reference, body=True)
        }  # fmt: skip
        item: JsonObject = {"get": _operation("get", kind, reference), "delete": _operation("delete", kind, reference)}
        item["put"] = _operation("put", kind, reference, body=True)
        item["patch"] = _operation("patch", kind, reference, body=True, custom=resource.custom)
        paths[f"{scope}/{resource.plural}/{{name}}"] = item


_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
_PATCH_TYPES = (
    "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)  # fmt: skip


def _operation(
    action: str, kind: JsonObject, schema: JsonObject, body: bool = False, custom: bool = False
) -> JsonObject:
    names = [*_WRITE_PARAMETERS, *(["force"] if action == "patch" else [])] if body else []
    parameters: list[JsonObject] = [
        {
            "name": name,
            "in": "query",
            "schema": {"type": "boolean" if name == "force" else "string", "uniqueItems": True},
        }
        for name in names
    ]
    operation: JsonObject = {
        "operationId": f"{action}{kind['group']}{kind['version']}{kind['kind']}",
        "parameters": parameters,
        "responses": {"200": {"description": "OK", "content": {JSON: {"schema": schema}}}},
        "x-kubernetes-action": action,
        GVK: kind,
    }
    if body:
        media = [m for m in _PATCH_TYPES if not (custom and "strategic" in m)] if action == "patch" else [JSON]
        content = {name: {"schema": {"type": "object"} if action == "patch" else schema} for name in media}
        operation["requestBody"] = {"content": content, "required": True}
    return operation


def _as_v2(schema: Any) -> Any:
    """An OpenAPI v3 schema without what v2 does not know."""
    if isinstance(schema, list):
        return [_as_v2(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "allOf" in schema and len(schema["allOf"]) == 1 and "$ref" in schema["allOf"][0]:
        return {"$ref": schema["allOf"][0]["$ref"]}
    dropped = {"nullable", "oneOf", "anyOf", "not"}
    return {key: _as_v2(value) for key, value in schema.items() if key not in dropped}


def _operations_v2(item: JsonObject) -> JsonObject:
    operations = {}
    for method, operation in item.items():
        converted = {key: value for key, value in operation.items() if key not in ("requestBody", "responses")}
        parameters = [
            {"name": p["name"], "in": p["in"], "type": p["schema"]["type"], "uniqueItems": True}
            for p in operation["parameters"]
        ]
        operations[method] = {**converted, "parameters": parameters, "responses": {"200": {"description": "OK"}}}
    return operations
