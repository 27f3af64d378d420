"""The scale subresource: ``autoscaling/v1`` Scale over the fields that a kind names."""

from __future__ import annotations

from typing import Any

from sandbox.api import bodies, patches
from sandbox.api.messages import Request, Response, json_response
from sandbox.api.resources import Resource
from sandbox.api.routes import Route, write_options
from sandbox.api.status import bad_request, cause, internal, invalid, method_not_allowed, not_found
from sandbox.api.writer import Steps, Writer
from sandbox.jsontypes import JsonObject


def _at(obj: JsonObject, path: str) -> Any:
    value: Any = obj
    for step in path.lstrip(".").split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def selector_text(selector: Any) -> str:
    """A ``LabelSelector`` (or a selector that is text already) in the form of a query parameter."""
    if not isinstance(selector, dict):
        return str(selector or "")
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for term in selector.get("matchExpressions") or ():
        values = ",".join(sorted(term.get("values") or ()))
        text = {"In": f"{term['key']} in ({values})", "NotIn": f"{term['key']} notin ({values})",
                "Exists": term["key"], "DoesNotExist": f"!{term['key']}"}[term["operator"]]  # fmt: skip
        terms.append(text)
    return ",".join(terms)


def scale_of(resource: Resource, obj: JsonObject) -> JsonObject:
    """The Scale of an object; 500 when a custom resource has no replicas field (as the real server answers)."""
    paths = resource.scale
    assert paths is not None
    replicas = _at(obj, paths.spec)
    if replicas is None:
        if resource.custom:
            raise internal(f'the spec replicas field "{paths.spec}" does not exist')
        replicas = 1
    meta = {key: obj["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")}
    status: JsonObject = {"replicas": _at(obj, paths.status) or 0}
    selector = selector_text(_at(obj, paths.selector)) if paths.selector else ""
    if selector:
        status["selector"] = selector
    spec = {"replicas": replicas} if replicas else {}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": meta, "spec": spec, "status": status}


def answer(writer: Writer, resource: Resource, route: Route, request: Request, user: JsonObject) -> Steps[Response]:
    """GET, PUT and PATCH of a scale."""
    if request.method in ("GET", "HEAD"):
        entry = writer.store.get(resource.storage, route.namespace, route.name)
        if entry is None:
            raise not_found(resource.group, resource.plural, route.name)
        return json_response(scale_of(resource, entry.obj))
    if request.method not in ("PUT", "PATCH"):
        raise method_not_allowed()
    given = bodies.read_object(request, "Scale") if request.method == "PUT" else None
    edit = patches.changer(request, _as_scale(resource)) if given is None else None

    def change(obj: JsonObject) -> JsonObject:
        if edit is not None:
            return _set(resource, obj, edit(scale_of(resource, obj)))
        return _set(resource, obj, given or {})

    written = yield from writer.modify(resource, route, change, write_options(request), user)
    return json_response(scale_of(resource, written.obj))


def _as_scale(resource: Resource) -> Resource:
    return Resource("autoscaling", "v1", "Scale", resource.plural, "scale", resource.namespaced)


def _set(resource: Resource, obj: JsonObject, scale: JsonObject) -> JsonObject:
    if scale.get("kind", "Scale") != "Scale":
        raise bad_request(f"expected kind Scale, got {scale.get('kind')}")
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request("json: cannot unmarshal into Go struct field ScaleSpec.spec.replicas of type int32")
    name = obj["metadata"]["name"]
    if replicas < 0:
        text = f"Invalid value: {replicas}: must be greater than or equal to 0"
        raise invalid("autoscaling", "Scale", name, [cause("spec.replicas", "FieldValueInvalid", text)])
    given = scale.get("metadata") or {}
    for field in ("uid", "resourceVersion"):
        if given.get(field):
            obj["metadata"][field] = given[field]
    paths = resource.scale
    assert paths is not None
    *steps, last = paths.spec.lstrip(".").split(".")
    holder = obj
    for step in steps:
        holder = holder.setdefault(step, {})
    holder[last] = replicas
    return obj
