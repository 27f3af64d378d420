"""A version of a CustomResourceDefinition, ready to judge its objects."""

from __future__ import annotations

import copy
from datetime import datetime

from sandbox.api.status import cause, invalid
from sandbox.jsontypes import JsonObject, JsonValue
from sandbox.schema import meta
from sandbox.schema.decoding import decode
from sandbox.schema.defaults import apply_defaults, prune_nulls
from sandbox.schema.node import Node, compile_schema
from sandbox.schema.printing import custom_columns
from sandbox.schema.typed import check_types
from sandbox.schema.validation import ABSENT, Fault, validate

OPEN: JsonObject = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_STANDING: JsonObject = {
    "apiVersion": {
        "type": "string",
        "description": "APIVersion defines the versioned schema of this representation of an object.",
    },
    "kind": {"type": "string", "description": "Kind is a string value representing the resource of this object."},
    "metadata": {"type": "object"},
}


class SchemaError(ValueError):
    """A CustomResourceDefinition whose schema cannot be used; the text names the place."""


class CustomResource:
    """Everything the API server knows of the objects of one CRD version."""

    def __init__(self, crd: JsonObject, version: JsonObject) -> None:
        spec = crd["spec"]
        self.group: str = spec["group"]
        self.version: str = version["name"]
        self.kind: str = spec["names"]["kind"]
        self._schema: JsonObject = (version.get("schema") or {}).get("openAPIV3Schema") or OPEN
        place = f"spec.versions[{self.version}].schema.openAPIV3Schema"
        try:
            self.node: Node = compile_schema(self._schema)
            self._columns = custom_columns(version.get("additionalPrinterColumns") or [])
        except (ValueError, KeyError) as error:
            raise SchemaError(f"{place}: {error}") from error
        self._selectable = tuple(field["jsonPath"].removeprefix(".") for field in version.get("selectableFields") or ())

    @classmethod
    def from_crd(cls, crd: JsonObject, version: str) -> CustomResource:
        """The named version of a CRD. Raises ``SchemaError`` for a schema, rule or column that cannot be compiled."""
        for candidate in crd["spec"]["versions"]:
            if candidate["name"] == version:
                return cls(crd, candidate)
        raise SchemaError(f"{crd['metadata']['name']} has no version {version}")

    def decode(self, obj: JsonObject) -> tuple[JsonObject, list[str]]:
        """The object without unknown fields, and ``unknown field "spec.x"`` for each one taken out.

        Raises the 400 ``StatusError`` of metadata whose types do not fit; everything else is left to ``validate``.
        """
        pruned, unknown = decode(obj, self.node)
        check_types({"metadata": pruned.get("metadata")}, meta.STANDING, self.kind, self.version)
        return pruned, [f'unknown field "{path}"' for path in unknown]

    def default(self, obj: JsonObject) -> JsonObject:
        """The object (changed in place) with defaults filled in and meaningless nulls taken out."""
        apply_defaults(obj, self.node)
        prune_nulls({key: obj[key] for key in obj if key != "metadata"}, self.node)
        for name in [key for key, value in obj.items() if value is None and key in self.node.properties]:
            if not self.node.properties[name].nullable:
                del obj[name]
        return obj

    def faults(self, obj: JsonObject, old: JsonObject | None = None) -> list[Fault]:
        """Every broken rule; ``old`` is the stored object on update (ratcheting, transition rules)."""
        return validate(obj, self.node, ABSENT if old is None else old)

    def validate(self, obj: JsonObject, old: JsonObject | None = None, subresource: str = "") -> None:
        """Raises the 422 ``StatusError`` that names every fault; a subresource is judged by the same rules."""
        faults = self.faults(obj, old)
        if faults:
            causes = [cause(fault.field, fault.reason, fault.message) for fault in faults]
            raise invalid(self.group, self.kind, obj["metadata"].get("name", ""), causes)

    def schema(self) -> JsonObject:
        """The published OpenAPI v3 schema: the declared one with the standing fields of every object."""
        schema = copy.copy(self._schema)
        schema["properties"] = {
            **_STANDING,
            **(self._schema.get("properties") or {}),
            "metadata": {"allOf": [{"$ref": f"#/components/schemas/{meta.OBJECT_META_NAME}"}], "default": {}},
        }
        kind = {"group": self.group, "version": self.version, "kind": self.kind}
        schema["x-kubernetes-group-version-kind"] = [kind]
        return schema

    def definitions(self) -> JsonObject:
        """What the schema refers to by ``$ref``."""
        return {meta.OBJECT_META_NAME: meta.SCHEMA}

    def columns(self) -> list[JsonObject]:
        """The columns of the table form (``TableColumnDefinition``)."""
        return [column.definition() for column in self._columns]

    def cells(self, obj: JsonObject, now: datetime) -> list[JsonValue]:
        """The cells of an object's row, in the order of the columns."""
        return [column.cell(obj, now) for column in self._columns]

    def selectable(self) -> tuple[str, ...]:
        """The declared ``selectableFields``, without the leading dot."""
        return self._selectable
