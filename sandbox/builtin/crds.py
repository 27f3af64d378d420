"""Rules of CustomResourceDefinitions: names, versions and structural schemas that compile."""

from __future__ import annotations

from collections.abc import Iterator

from sandbox.builtin.faults import invalid, one_of, required
from sandbox.jsontypes import JsonObject
from sandbox.schema.custom import CustomResource, SchemaError
from sandbox.schema.structural import violations
from sandbox.schema.validation import Fault


def definition(obj: JsonObject) -> Iterator[Fault]:
    """The faults of a CustomResourceDefinition."""
    spec: JsonObject = obj.get("spec") or {}
    names: JsonObject = spec.get("names") or {}
    group = spec.get("group", "")
    if not group:
        yield required("spec.group")
    for name in ("plural", "kind"):
        if not names.get(name):
            yield required(f"spec.names.{name}")
    wanted = f"{names.get('plural', '')}.{group}"
    if obj["metadata"].get("name") != wanted:
        yield invalid("metadata.name", obj["metadata"].get("name", ""), 'must be spec.names.plural+"."+spec.group')
    yield from one_of("spec.scope", spec.get("scope", ""), ("Cluster", "Namespaced"))
    versions = spec.get("versions") or []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", versions, "must have exactly one version marked as storage version")
    if group and names.get("plural") and names.get("kind"):
        for index, version in enumerate(versions):
            yield from _version(obj, version, f"spec.versions[{index}]")


def _version(obj: JsonObject, version: JsonObject, path: str) -> Iterator[Fault]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    place = f"{path}.schema.openAPIV3Schema"
    if schema is None:
        yield required(place, "schemas are required")
        return
    found = list(violations(schema))
    yield from (Fault(f"{place}{where}", reason, text) for where, reason, text in found)
    if found:
        return
    try:
        CustomResource(obj, version)
    except SchemaError as error:
        yield invalid(place, "", str(error))
