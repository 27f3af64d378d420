"""Everything that is not a resource: discovery (legacy and aggregated), version, health and the API's description."""

from __future__ import annotations

import hashlib

import orjson

from sandbox.api.messages import JSON, Request, Response, json_response
from sandbox.api.openapi import OpenApi
from sandbox.api.resources import Registry, Resource
from sandbox.api.status import method_not_allowed, not_acceptable
from sandbox.jsontypes import JsonObject

VERSION: JsonObject = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0+sandbox",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
PUBLIC = frozenset({"healthz", "readyz", "livez", "version"})
"""First parts of the paths that need no credentials."""
HEALTH = ("/healthz", "/readyz", "/livez")


def answer(registry: Registry, openapi: OpenApi, request: Request) -> Response:
    """The answer to a path that names no resource; 404 in plain text for one that names nothing."""
    path = request.path.rstrip("/") or "/"
    if request.method not in ("GET", "HEAD"):
        raise method_not_allowed()
    if path == "/version":
        return json_response(VERSION)
    if path.split("/")[1] in ("healthz", "readyz", "livez"):
        return _health(request)
    if path.startswith("/openapi/"):
        return openapi.answer(request)
    body = _aggregated_version(request) if path in ("/api", "/apis") else ""
    if body:
        core = path == "/api"
        return _tagged(request, aggregated(registry, core, body), AGGREGATED.format(body))
    found = _legacy(registry, path)
    return page_not_found() if found is None else json_response(found)


def page_not_found() -> Response:
    """404 as the API server's router gives it: plain text, no Status."""
    return Response(404, b"404 page not found\n", {"Content-Type": "text/plain; charset=utf-8"})


def _health(request: Request) -> Response:
    checks = ["ping", "log", "etcd", "poststarthook/crd-informer-synced"]
    name = request.path.strip("/").split("/")[0]
    text = "ok"
    if "verbose" in request.query:
        text = "\n".join(f"[+]{check} ok" for check in checks) + f"\n{name} check passed\n"
    return Response(200, text.encode(), {"Content-Type": "text/plain; charset=utf-8"})


def _aggregated_version(request: Request) -> str:
    """The version of aggregated discovery that the client prefers, empty for the legacy form."""
    header = request.header("accept")
    for part in header.split(",") if header else ():
        pieces = [piece.strip() for piece in part.split(";")]
        if pieces[0] not in (JSON, "*/*", "application/*"):
            continue
        values = dict(piece.split("=", 1) for piece in pieces[1:] if "=" in piece)
        if values.get("as") == "APIGroupDiscoveryList" and values.get("v") in ("v2", "v2beta1"):
            return values["v"]
        if "as" not in values:
            return ""
    if header:
        raise not_acceptable([JSON])
    return ""


def _tagged(request: Request, body: JsonObject, content_type: str) -> Response:
    data = orjson.dumps(body)
    tag = '"' + hashlib.sha256(data).hexdigest().upper() + '"'
    headers = {"Content-Type": content_type, "ETag": tag, "Vary": "Accept"}
    if request.header("if-none-match") == tag:
        return Response(304, b"", headers)
    return Response(200, data, headers)


def _legacy(registry: Registry, path: str) -> JsonObject | None:
    parts = path.strip("/").split("/")
    match parts:
        case [""]:
            roots = ["/api", "/api/v1", "/apis", *HEALTH, "/openapi/v2", "/openapi/v3", "/version"]
            for group, version in registry.group_versions():
                roots += [f"/apis/{group}", f"/apis/{group}/{version}"] if group else []
            return {"paths": sorted(set(roots))}
        case ["api"]:
            address = [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}]
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": address}
        case ["apis"]:
            groups = [_group(registry, group) for group in registry.groups()]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", group] if group in registry.groups():
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(registry, group)}
        case ["api", version]:
            return _resource_list(registry, "", version)
        case ["apis", group, version]:
            return _resource_list(registry, group, version)
    return None


def _group(registry: Registry, group: str) -> JsonObject:
    versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in registry.versions(group)]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _resource_list(registry: Registry, group: str, version: str) -> JsonObject | None:
    resources = registry.resources(group, version)
    if not resources:
        return None
    listed = []
    for resource in resources:
        listed.append(_legacy_resource(resource))
        if resource.status:
            listed.append(_legacy_part(resource, "status", resource.kind, {}))
        if resource.scale:
            scale = {"group": "autoscaling", "version": "v1"}
            listed.append(_legacy_part(resource, "scale", "Scale", scale))
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": listed}


def _legacy_resource(resource: Resource) -> JsonObject:
    body: JsonObject = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        body["shortNames"] = list(resource.short_names)
    if resource.categories:
        body["categories"] = list(resource.categories)
    body["storageVersionHash"] = hashlib.sha256(resource.storage.encode()).hexdigest()[:11] + "="
    return body


def _legacy_part(resource: Resource, part: str, kind: str, extra: JsonObject) -> JsonObject:
    return {
        "name": f"{resource.plural}/{part}",
        "singularName": "",
        "namespaced": resource.namespaced,
        **extra,
        "kind": kind,
        "verbs": ["get", "patch", "update"],
    }


def aggregated(registry: Registry, core: bool, version: str) -> JsonObject:
    """``APIGroupDiscoveryList``: the core group alone, or all named groups."""
    items = []
    for group in [""] if core else registry.groups():
        versions = [
            {
                "version": name,
                "resources": [_aggregated_resource(resource) for resource in registry.resources(group, name)],
                "freshness": "Current",
            }
            for name in registry.versions(group)
        ]
        meta: JsonObject = {"creationTimestamp": None}
        if group:
            meta["name"] = group
        items.append({"metadata": meta, "versions": versions})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def _aggregated_resource(resource: Resource) -> JsonObject:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    parts = []
    if resource.scale:
        scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        parts.append({"subresource": "scale", "responseKind": scale, "verbs": ["get", "patch", "update"]})
    if resource.status:
        parts.append({"subresource": "status", "responseKind": kind, "verbs": ["get", "patch", "update"]})
    body: JsonObject = {
        "resource": resource.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        body["shortNames"] = list(resource.short_names)
    if resource.categories:
        body["categories"] = list(resource.categories)
    if parts:
        body["subresources"] = parts
    return body
