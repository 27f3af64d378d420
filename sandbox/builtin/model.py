"""A built-in kind, ready to judge its objects. Schemas are made on first use."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property

from sandbox.api.status import cause, invalid
from sandbox.builtin import defaults, generate, rules, tables
from sandbox.jsontypes import JsonObject, JsonValue
from sandbox.schema.decoding import decode
from sandbox.schema.node import Compiler, Node
from sandbox.schema.typed import check_types


class BuiltinModel:
    """Everything the API server knows of the objects of one built-in kind."""

    def __init__(self, group: str, version: str, kind: str, model: str) -> None:
        self.group, self.version, self.kind = group, version, kind
        self._model = model

    @cached_property
    def node(self) -> Node:
        """The compiled schema."""
        return Compiler(self.definitions()).compile(generate.definition(self._model))

    def decode(self, obj: JsonObject) -> tuple[JsonObject, list[str]]:
        """The object without unknown fields and nulls, and ``unknown field "spec.x"`` for each field taken out.

        Raises the 400 ``StatusError`` of a value whose type does not fit. Quantities given as numbers become strings.
        """
        pruned, unknown = decode(obj, self.node)
        check_types(pruned, self.node, self.kind, self.version)
        return pruned, [f'unknown field "{path}"' for path in unknown]

    def default(self, obj: JsonObject) -> JsonObject:
        """The object (changed in place) with the defaults of its kind."""
        defaults.apply(self.group, self.kind, obj)
        return obj

    def validate(self, obj: JsonObject, old: JsonObject | None = None, subresource: str = "") -> None:
        """Raises the 422 ``StatusError`` that names every broken rule; ``old`` is the stored object on update."""
        faults = rules.faults(self.group, self.kind, obj, old, subresource)
        if faults:
            causes = [cause(fault.field, fault.reason, fault.message) for fault in faults]
            raise invalid(self.group, self.kind, obj["metadata"].get("name", ""), causes)

    def schema(self) -> JsonObject:
        """The published OpenAPI v3 schema of the kind; other structs are referred to by ``$ref``."""
        kind = {"group": self.group, "version": self.version, "kind": self.kind}
        return {**generate.definition(self._model), "x-kubernetes-group-version-kind": [kind]}

    @cached_property
    def _definitions(self) -> JsonObject:
        return generate.definitions(self._model)

    def definitions(self) -> JsonObject:
        """The schemas that ``$ref`` names, by the last part of the reference."""
        return self._definitions

    def name(self) -> str:
        """The published name of the kind's own schema."""
        return generate.definition_name(self._model)

    def columns(self) -> list[JsonObject]:
        """The columns of the table form (``TableColumnDefinition``)."""
        return [column.definition() for column in tables.columns(self.group, self.kind)]

    def cells(self, obj: JsonObject, now: datetime) -> list[JsonValue]:
        """The cells of an object's row, in the order of the columns."""
        return [column.cell(obj, now) for column in tables.columns(self.group, self.kind)]

    def selectable(self) -> tuple[str, ...]:
        """Field selectors of built-in kinds are the server's own matter."""
        return ()
