"""A schema, compiled once into nodes that the walkers (decoding, defaults, validation, rules) visit."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.jsontypes import JsonObject, JsonValue
from sandbox.schema.cel import Rule

Check = Callable[[JsonValue, str], "tuple[str, JsonValue, str] | None"]
PRESERVE = "x-kubernetes-preserve-unknown-fields"


@dataclass(slots=True, eq=False)
class Node:
    """One place of a schema. Limits that are not given are None or empty."""

    type: str = ""
    """``object``, ``array``, ``string``, ``integer``, ``number``, ``boolean``, or empty for any type."""
    title: str = ""
    """The name of the Go struct, for decoding errors of built-in kinds."""
    properties: dict[str, Node] = field(default_factory=dict)
    items: Node | None = None
    additional: Node | None = None
    preserve: bool = False
    """Unknown members are kept."""
    embedded: bool = False
    """The value is an object with apiVersion, kind and metadata of its own."""
    int_or_string: bool = False
    quantity: bool = False
    nullable: bool = False
    has_default: bool = False
    default: JsonValue = None
    required: tuple[str, ...] = ()
    enum: tuple[JsonValue, ...] = ()
    format: str = ""
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: re.Pattern[str] | None = None
    pattern_text: str = ""
    min_items: int | None = None
    max_items: int | None = None
    unique_items: bool = False
    min_properties: int | None = None
    max_properties: int | None = None
    all_of: tuple[Node, ...] = ()
    any_of: tuple[Node, ...] = ()
    one_of: tuple[Node, ...] = ()
    none_of: Node | None = None
    list_type: str = ""
    list_keys: tuple[str, ...] = ()
    map_type: str = ""
    rules: tuple[Rule, ...] = ()
    defaults_below: bool = False
    """Whether applying defaults can change anything here or below."""
    rules_below: bool = False
    """Whether a CEL rule stands here or below."""


class Compiler:
    """Turns schemas into nodes; ``$ref`` is followed into ``definitions`` and may be recursive."""

    def __init__(self, definitions: Mapping[str, JsonObject] | None = None) -> None:
        self._definitions = definitions or {}
        self._known: dict[str, Node] = {}

    def compile(self, schema: JsonObject) -> Node:
        """The node of a schema. Raises ``ValueError`` for a pattern or a rule that does not compile."""
        name = _reference(schema)
        if name is not None:
            return self._referenced(name)
        node = Node()
        self._fill(node, schema)
        return node

    def _referenced(self, name: str) -> Node:
        if name not in self._known:
            node = self._known[name] = Node()
            self._fill(node, self._definitions.get(name, {PRESERVE: True}))
        return self._known[name]

    def _fill(self, node: Node, schema: JsonObject) -> None:
        node.type = schema.get("type", "")
        node.title = schema.get("title", "")
        node.properties = {name: self.compile(child) for name, child in (schema.get("properties") or {}).items()}
        node.items = self.compile(schema["items"]) if schema.get("items") else None
        extra = schema.get("additionalProperties")
        if extra:
            node.additional = self.compile({PRESERVE: True, "nullable": True} if extra is True else extra)
        node.preserve = bool(schema.get(PRESERVE))
        node.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        node.int_or_string = bool(schema.get("x-kubernetes-int-or-string")) or schema.get("format") == "int-or-string"
        node.quantity = schema.get("format") == "quantity"
        node.nullable = bool(schema.get("nullable"))
        node.has_default = schema.get("default") is not None
        node.default = schema.get("default")
        node.list_type = schema.get("x-kubernetes-list-type", "")
        node.list_keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        node.map_type = schema.get("x-kubernetes-map-type", "")
        node.rules = tuple(Rule.compile(rule) for rule in schema.get("x-kubernetes-validations") or ())
        self._limits(node, schema)
        below = [*node.properties.values(), *(child for child in (node.items, node.additional) if child)]
        node.defaults_below = node.has_default or any(child.defaults_below for child in below)
        node.rules_below = bool(node.rules) or any(child.rules_below for child in below)

    def _limits(self, node: Node, schema: JsonObject) -> None:
        plain: dict[str, tuple[str, Any]] = {
            "minimum": ("minimum", None),
            "maximum": ("maximum", None),
            "exclusive_minimum": ("exclusiveMinimum", False),
            "exclusive_maximum": ("exclusiveMaximum", False),
            "multiple_of": ("multipleOf", None),
            "min_length": ("minLength", None),
            "max_length": ("maxLength", None),
            "min_items": ("minItems", None),
            "max_items": ("maxItems", None),
            "unique_items": ("uniqueItems", False),
            "min_properties": ("minProperties", None),
            "max_properties": ("maxProperties", None),
            "format": ("format", ""),
        }
        for name, (key, absent) in plain.items():
            setattr(node, name, schema.get(key, absent))
        node.required = tuple(schema.get("required") or ())
        node.enum = tuple(schema.get("enum") or ())
        if schema.get("pattern"):
            node.pattern_text = schema["pattern"]
            try:
                node.pattern = re.compile(go_pattern(schema["pattern"]))
            except re.error as error:
                raise ValueError(f"pattern {schema['pattern']!r}: {error}") from None
        node.all_of = tuple(self.compile(part) for part in schema.get("allOf") or ())
        node.any_of = tuple(self.compile(part) for part in schema.get("anyOf") or ())
        node.one_of = tuple(self.compile(part) for part in schema.get("oneOf") or ())
        node.none_of = self.compile(schema["not"]) if schema.get("not") else None


def _reference(schema: JsonObject) -> str | None:
    parts = schema.get("allOf")
    reference = schema.get("$ref") or (parts[0].get("$ref") if parts and len(parts) == 1 else None)
    return reference.rsplit("/", 1)[-1] if reference else None


def go_pattern(pattern: str) -> str:
    """A Go regular expression in Python's syntax: ``$`` and ``\\z`` end the text, POSIX classes are spelled out."""
    classes = {"[:alpha:]": "A-Za-z", "[:digit:]": "0-9", "[:alnum:]": "A-Za-z0-9", "[:space:]": r"\s",
               "[:upper:]": "A-Z", "[:lower:]": "a-z", "[:xdigit:]": "0-9A-Fa-f", "[:word:]": r"\w"}  # fmt: skip
    for name, spelled in classes.items():
        pattern = pattern.replace(name, spelled)
    pattern = pattern.replace(r"\z", r"\Z")
    return re.sub(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\$", lambda m: r"\Z" if m[0] == "$" else m[0], pattern)


def compile_schema(schema: JsonObject, definitions: Mapping[str, JsonObject] | None = None) -> Node:
    """The compiled form of a schema; ``definitions`` are what ``$ref`` names (by the last part of the reference)."""
    return Compiler(definitions).compile(schema)
