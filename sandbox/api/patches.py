"""PATCH in its four forms: JSON patch, merge patch, strategic merge patch and server-side apply."""

from __future__ import annotations

from collections.abc import Callable

import jsonpatch
import jsonpointer
import orjson
import yaml

from sandbox.api import apply, bodies, strategicmerge
from sandbox.api.messages import Request
from sandbox.api.resources import Resource
from sandbox.api.routes import Route, WriteOptions, write_options
from sandbox.api.status import StatusError, bad_request, cause, invalid, unsupported_media_type
from sandbox.api.writer import Steps, Writer, Written
from sandbox.jsontypes import JsonObject, JsonValue
from services.kit.mergepatch import merge_patch

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
MAX_OPERATIONS = 10_000


def changer(request: Request, resource: Resource) -> Callable[[JsonObject], JsonObject]:
    """What a JSON, merge or strategic merge patch does to an object, as a function. 415 for other media types."""
    bodies.check_size(request)
    match bodies.media_type(request):
        case "application/json-patch+json":
            return _json_patch(request.body)
        case "application/merge-patch+json":
            patch = _object(request.body)
            return lambda obj: _still_object(merge_patch(obj, orjson.loads(orjson.dumps(patch))))
        case "application/strategic-merge-patch+json" if not resource.custom:
            patch = _object(request.body)
            return lambda obj: strategicmerge.patch(resource, obj, patch)
        case _:
            offered = [JSON_PATCH, MERGE_PATCH] + ([] if resource.custom else [STRATEGIC]) + [APPLY]
            raise unsupported_media_type(offered)


def _object(body: bytes) -> JsonObject:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if not isinstance(value, dict):
        raise bad_request("error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}")
    return value


def _still_object(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise bad_request("the patched object is no object")
    return value


def _json_patch(body: bytes) -> Callable[[JsonObject], JsonObject]:
    try:
        operations = orjson.loads(body)
        if not isinstance(operations, list):
            raise bad_request(
                "error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch"
            )
        patch = jsonpatch.JsonPatch(operations)
    except (orjson.JSONDecodeError, jsonpatch.InvalidJsonPatch, jsonpointer.JsonPointerException, TypeError) as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if len(operations) > MAX_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise StatusError(413, "RequestEntityTooLarge", text)

    def change(obj: JsonObject) -> JsonObject:
        try:
            return _still_object(patch.apply(obj))
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, KeyError):
            text = "the server rejected our request due to an error in our request"
            raise StatusError(422, "Invalid", text, {}) from None

    return change


def patch(writer: Writer, resource: Resource, route: Route, request: Request, user: JsonObject) -> Steps[Written]:
    """Carries out a PATCH on an object or its status."""
    options = write_options(request)
    if bodies.media_type(request) == APPLY:
        return (yield from _apply(writer, resource, route, request, options, user))
    if "force" in request.query:
        text = "Forbidden: may not be specified for non-apply patch"
        raise invalid("meta.k8s.io", "PatchOptions", "", [cause("force", "FieldValueForbidden", text)])
    change = changer(request, resource)
    try:
        return (yield from writer.modify(resource, route, change, options, user))
    except StatusError as error:
        if error.code == 400 and "strict decoding error" in error.message:
            told = "strict decoding error" + error.message.split("strict decoding error", 1)[1]
            shown = orjson.dumps(request.body.decode("utf-8", "replace")).decode()
            causes = [cause("patch", "FieldValueInvalid", f"Invalid value: {shown}: {told}")]
            raise StatusError(
                422, "Invalid", f' "" is invalid: {causes[0]["field"]}: {causes[0]["message"]}', {"causes": causes}
            ) from None
        raise


def _apply(
    writer: Writer, resource: Resource, route: Route, request: Request, options: WriteOptions, user: JsonObject
) -> Steps[Written]:
    bodies.check_size(request)
    if not request.query.get("fieldManager"):
        text = "Required value: is required for apply patch"
        raise invalid("meta.k8s.io", "PatchOptions", "", [cause("fieldManager", "FieldValueRequired", text)])
    try:
        applied = bodies.yaml_value(request.body) if request.body[:1] != b"{" else _object(request.body)
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    if not isinstance(applied, dict):
        raise bad_request("error decoding YAML: the applied configuration must be an object")
    return (yield from apply.apply(writer, resource, route, orjson.dumps(applied), options, user))
