"""The schema engine on small schemas: pruning, defaults, texts of faults, ratcheting, rules."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from sandbox.api.status import StatusError
from sandbox.schema import CustomResource, SchemaError, apply_defaults, compile_schema, decode, prune_nulls, validate
from sandbox.schema.validation import ABSENT, NOT_CHECKED

OPEN = "x-kubernetes-preserve-unknown-fields"
TEXT = {"type": "string"}


def texts(value: Any, schema: dict[str, Any], old: Any = ABSENT) -> list[str]:
    root = {"type": "object", "properties": {"f": schema}}
    before = old if old is ABSENT else {"f": old}
    return [f"{fault.field}: {fault.message}" for fault in validate({"f": value}, compile_schema(root), before)]


@pytest.mark.parametrize(
    ("schema", "obj", "kept", "unknown"),
    [
        ({"properties": {"a": TEXT}}, {"a": "x", "b": 1}, {"a": "x"}, ["b"]),
        ({"properties": {"a": TEXT}, OPEN: True}, {"a": "x", "b": {"c": 1}}, {"a": "x", "b": {"c": 1}}, []),
        ({OPEN: True, "properties": {"a": {"type": "object", "properties": {"x": TEXT}}}},
         {"a": {"x": "1", "y": 2}, "z": {"y": 2}}, {"a": {"x": "1"}, "z": {"y": 2}}, ["a.y"]),
        ({"properties": {"l": {"type": "array", "items": {"type": "object", "properties": {"x": TEXT}}}}},
         {"l": [{"x": "1"}, {"y": 2}]}, {"l": [{"x": "1"}, {}]}, ["l[1].y"]),
        ({"additionalProperties": {"type": "object", "properties": {"x": TEXT}}},
         {"k": {"x": "1", "y": 1}}, {"k": {"x": "1"}}, ["k.y"]),
        ({"type": "object"}, {"a": 1}, {}, ["a"]),
        ({"properties": {"e": {"type": "object", "x-kubernetes-embedded-resource": True, OPEN: True}}},
         {"e": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "nam": 1}, "spec": {"q": 1}}},
         {"e": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": {"q": 1}}}, ["e.metadata.nam"]),
        ({"properties": {"spec": {"type": "object"}}},
         {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "lables": {}}, "spec": {}},
         {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": {}}, ["metadata.lables"]),
        ({"properties": {"b": {"type": "object"}, "a": {"type": "object"}}},
         {"b": {"z": 1}, "a": {"z": 1}}, {"b": {}, "a": {}}, ["a.z", "b.z"]),
    ],
)  # fmt: skip
def test_pruning(schema: dict[str, Any], obj: dict[str, Any], kept: dict[str, Any], unknown: list[str]) -> None:
    given = copy.deepcopy(obj)
    assert decode(given, compile_schema(schema)) == (kept, unknown)
    assert given == obj, "what was given is not changed"


@pytest.mark.parametrize(
    ("schema", "obj", "result"),
    [
        ({"properties": {"a": {"default": 1}}}, {}, {"a": 1}),
        ({"properties": {"a": {"default": 1}}}, {"a": 2}, {"a": 2}),
        ({"properties": {"a": {"default": 1}}}, {"a": None}, {"a": 1}),
        ({"properties": {"a": {"default": 1, "nullable": True}}}, {"a": None}, {"a": None}),
        ({"properties": {"a": {"properties": {"b": {"default": 1}}}}}, {}, {}),
        ({"properties": {"a": {"properties": {"b": {"default": 1}}}}}, {"a": {}}, {"a": {"b": 1}}),
        ({"properties": {"a": {"default": {}, "properties": {"b": {"default": 1}}}}}, {}, {"a": {"b": 1}}),
        ({"properties": {"a": {"items": {"properties": {"b": {"default": 1}}}}}}, {"a": [{}, {"b": 2}]},
         {"a": [{"b": 1}, {"b": 2}]}),
        ({"additionalProperties": {"properties": {"b": {"default": 1}}}}, {"k": {}}, {"k": {"b": 1}}),
        ({"additionalProperties": {"default": 1}}, {"k": None}, {"k": 1}),
        ({"properties": {"a": TEXT, "b": {"type": "object", "properties": {"c": TEXT}}}},
         {"a": None, "b": {"c": None, "d": None}}, {"b": {"d": None}}),
        ({"properties": {"a": {"type": "string", "nullable": True}}}, {"a": None}, {"a": None}),
        ({"properties": {"a": {"type": "array", "items": TEXT}}}, {"a": [None]}, {"a": [None]}),
    ],
)  # fmt: skip
def test_defaults_and_nulls(schema: dict[str, Any], obj: dict[str, Any], result: dict[str, Any]) -> None:
    node = compile_schema(schema)
    apply_defaults(obj, node)
    prune_nulls(obj, node)
    assert obj == result


def test_defaults_are_not_shared_between_objects() -> None:
    node = compile_schema({"properties": {"a": {"default": {"l": []}}}})
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    apply_defaults(first, node)
    apply_defaults(second, node)
    first["a"]["l"].append(1)
    assert second == {"a": {"l": []}}


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "string"}, 1, 'Invalid value: "integer": f in body must be of type string: "integer"'),
        ({"type": "string"}, None, 'Invalid value: "null": f in body must be of type string: "null"'),
        ({"type": "integer"}, True, 'Invalid value: "boolean": f in body must be of type integer: "boolean"'),
        ({"type": "object"}, [], 'Invalid value: "array": f in body must be of type object: "array"'),
        ({"type": "array", "items": TEXT}, {}, 'Invalid value: "object": f in body must be of type array: "object"'),
        ({"x-kubernetes-int-or-string": True}, 1.5,
         'Invalid value: "number": f in body must be of type integer,string: "number"'),
        ({"type": "string", "enum": ["a", "b"]}, "c", 'Unsupported value: "c": supported values: "a", "b"'),
        ({"type": "integer", "enum": [1, 2]}, 3, 'Unsupported value: 3: supported values: "1", "2"'),
        ({"type": "string", "maxLength": 2}, "abc", "Too long: may not be more than 2 bytes"),
        ({"type": "string", "minLength": 2}, "a", 'Invalid value: "a": f in body should be at least 2 chars long'),
        ({"type": "string", "pattern": "^a$"}, "b", "Invalid value: \"b\": f in body should match '^a$'"),
        ({"type": "string", "format": "date-time"}, "today",
         'Invalid value: "today": f in body must be of type date-time: "today"'),
        ({"type": "integer", "maximum": 5}, 6, "Invalid value: 6: f in body should be less than or equal to 5"),
        ({"type": "number", "maximum": 1.5}, 2.5, "Invalid value: 2.5: f in body should be less than or equal to 1.5"),
        ({"type": "integer", "maximum": 5, "exclusiveMaximum": True}, 5,
         "Invalid value: 5: f in body should be less than 5"),
        ({"type": "integer", "minimum": 1}, 0, "Invalid value: 0: f in body should be greater than or equal to 1"),
        ({"type": "integer", "multipleOf": 2}, 3, "Invalid value: 3: f in body should be a multiple of 2"),
        ({"type": "array", "items": TEXT, "maxItems": 1}, ["a", "b"], "Too many: 2: must have at most 1 item"),
        ({"type": "array", "items": TEXT, "minItems": 1}, [],
         "Invalid value: 0: f in body should have at least 1 items"),
        ({"type": "object", OPEN: True, "maxProperties": 1}, {"a": 1, "b": 2},
         "Too many: 2: must have at most 1 item"),
        ({"type": "object", OPEN: True, "minProperties": 1}, {},
         "Invalid value: 0: f in body should have at least 1 properties"),
        ({"type": "string", "enum": ["a"]}, 'x"y', 'Unsupported value: "x\\"y": supported values: "a"'),
    ],
)  # fmt: skip
def test_texts(schema: dict[str, Any], value: Any, text: str) -> None:
    assert texts(value, schema) == [f"f: {text}"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, 2.0),
        ({"type": "number"}, 1),
        ({"type": "integer", "format": "int32"}, 2**31 - 1),
        ({"type": "string", "format": "date-time"}, "2026-12-01T00:00:00.5+01:00"),
        ({"type": "string", "format": "made-up"}, "anything"),
        ({"type": "string", "maxLength": 2}, "éü"),
        ({"type": "string", "nullable": True}, None),
        ({"type": "string", "pattern": "b"}, "abc"),
        ({"x-kubernetes-int-or-string": True}, "10%"),
        ({OPEN: True}, [1, {"a": None}]),
    ],
)
def test_fitting_values(schema: dict[str, Any], value: Any) -> None:
    assert texts(value, schema) == []


def test_integers_beyond_their_format() -> None:
    text = '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in f'
    assert texts(2**31, {"type": "integer", "format": "int32"}) == [text]
    assert texts(2**31, {"type": "integer", "format": "int64"}) == []
    assert texts(2**63, {"type": "integer"}) != []


def test_a_fraction_is_no_integer() -> None:
    checked = '<nil>: Invalid value: "": Checked value must be of type integer'
    plain, sized = texts(1.5, {"type": "integer"}), texts(1.5, {"type": "integer", "format": "int32"})
    assert plain == [
        'f: Invalid value: "number": f in body must be of type integer: "number"',
        f"{checked} (default format) in f",
    ]
    assert sized == [
        'f: Invalid value: "float64": f in body must be of type int32: "float64"',
        f"{checked} with format int32 in f",
    ]


def test_only_the_first_fault_of_a_text_is_told() -> None:
    schema = {"type": "string", "minLength": 2, "pattern": "^a$", "enum": ["q"]}
    assert texts("b", schema) == [
        'f: Unsupported value: "b": supported values: "q"',
        'f: Invalid value: "b": f in body should be at least 2 chars long',
    ]


def test_a_wrong_type_is_held_to_the_enumeration_too() -> None:
    assert texts(3, {"type": "string", "enum": ["a"]})[1] == 'f: Unsupported value: 3: supported values: "a"'


def test_a_dollar_ends_the_text_and_not_a_line() -> None:
    assert texts("a\n", {"type": "string", "pattern": "^a$"}) != []
    assert texts("a$", {"type": "string", "pattern": r"^a[$]\z"}) == []


@pytest.mark.parametrize(
    ("kind", "keys", "value", "text"),
    [
        ("set", [], ["a", "b", "a"], 'f[2]: Duplicate value: "a"'),
        ("map", ["k"], [{"k": "a"}, {"k": "b"}, {"k": "a", "v": 1}], 'f[2]: Duplicate value: {"k":"a"}'),
        ("atomic", [], ["a", "a"], None),
    ],
)
def test_lists_without_repetition(kind: str, keys: list[str], value: list[Any], text: str | None) -> None:
    items = {"type": "object", OPEN: True, "properties": {"k": TEXT}} if keys else TEXT
    schema = {"type": "array", "items": items, "x-kubernetes-list-type": kind, "x-kubernetes-list-map-keys": keys}
    assert texts(value, schema) == ([text] if text else [])


def test_true_and_one_are_different_members_of_a_set() -> None:
    assert texts([1, True], {"type": "array", "items": {OPEN: True}, "x-kubernetes-list-type": "set"}) == []


@pytest.mark.parametrize(
    ("schema", "value", "first"),
    [
        ({"anyOf": [{"maximum": 1}, {"minimum": 5}]}, 3, '"f" must validate at least one schema (anyOf)'),
        ({"oneOf": [{"maximum": 5}, {"minimum": 1}]}, 3,
         '"f" must validate one and only one schema (oneOf). Found 2 valid alternatives'),
        ({"oneOf": [{"maximum": 1}, {"minimum": 5}]}, 3,
         '"f" must validate one and only one schema (oneOf). Found none valid'),
        ({"allOf": [{"maximum": 1}, {"minimum": 5}]}, 3, '"f" must validate all the schemas (allOf). None validated'),
        ({"allOf": [{"maximum": 1}, {"minimum": 2}]}, 3, '"f" must validate all the schemas (allOf)'),
        ({"not": {"minimum": 1}}, 3, '"f" must not validate the schema (not)'),
    ],
)  # fmt: skip
def test_combined_schemas(schema: dict[str, Any], value: int, first: str) -> None:
    assert texts(value, {"type": "integer", **schema})[0] == f'<nil>: Invalid value: "": {first}'


def test_required_below_an_absent_object_is_not_missed() -> None:
    schema = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}
    assert texts({}, schema) == ["f.a: Required value"]


def test_embedded_objects_have_a_type() -> None:
    schema = {"type": "object", OPEN: True, "x-kubernetes-embedded-resource": True}
    assert texts({"kind": "K"}, schema) == ["f.apiVersion: Required value: must not be empty"]


class TestRatcheting:
    """An update is not refused for what it does not touch."""

    LIMIT = {"type": "integer", "maximum": 5}

    def test_unchanged(self) -> None:
        assert texts(9, self.LIMIT, 9) == []

    def test_changed(self) -> None:
        assert texts(8, self.LIMIT, 9) != []

    def test_type_change_that_python_calls_equal(self) -> None:
        assert texts(1, {"type": "boolean"}, True) != []

    def test_items_of_plain_lists_are_judged_when_the_list_changes(self) -> None:
        schema = {"type": "array", "items": self.LIMIT}
        assert texts([9, 1], schema, [9]) != []
        assert texts([9], schema, [9]) == []

    def test_items_of_map_lists_are_found_by_key(self) -> None:
        items = {"type": "object", "properties": {"k": TEXT, "n": self.LIMIT}}
        schema = {"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
        old = [{"k": "a", "n": 9}]
        assert texts([{"k": "b", "n": 1}, {"k": "a", "n": 9}], schema, old) == []
        text = "f[0].n: Invalid value: 9: f[0].n in body should be less than or equal to 5"
        assert texts([{"k": "b", "n": 9}], schema, old) == [text]

    def test_repetitions_that_were_stored_are_let_be(self) -> None:
        schema = {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}
        assert texts(["a", "a", "b"], schema, ["a", "a"]) == []
        assert texts(["a", "a"], schema, ["a"]) == ['f[1]: Duplicate value: "a"']

    def test_rules(self) -> None:
        schema = {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 5", "message": "too big"}]}
        assert texts(9, schema, 9) == []
        assert texts(8, schema, 9) == ['f: Invalid value: 8: too big']


def rule(text: str, **fields: Any) -> dict[str, Any]:
    return {"rule": text, **fields}


def ruled(kind: str, *rules: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": kind, "x-kubernetes-validations": list(rules), **fields}


@pytest.mark.parametrize(
    ("schema", "value", "old", "found"),
    [
        (ruled("integer", rule("self > 1", message="m")), 1, ABSENT, ["f: Invalid value: 1: m"]),
        (ruled("integer", rule("self > 1")), 1, ABSENT, ['f: Invalid value: 1: failed rule: self > 1']),
        (ruled("integer", rule("self > 1", messageExpression="'is ' + string(self)")), 1, ABSENT,
         ["f: Invalid value: 1: is 1"]),
        (ruled("integer", rule("self > 1", messageExpression="self.x", message="m")), 1, ABSENT,
         ["f: Invalid value: 1: m"]),
        (ruled("string", rule("self == oldSelf", message="fixed")), "b", "a", ['f: Invalid value: "b": fixed']),
        (ruled("string", rule("self == oldSelf", message="fixed")), "a", "a", []),
        (ruled("string", rule("self == oldSelf", message="fixed")), "b", ABSENT, []),
        (ruled("object", rule("has(self.a)", message="m", fieldPath=".a"), properties={"a": TEXT}), {}, ABSENT,
         ['f.a: Invalid value: m']),
        (ruled("object", rule("false", message="m", reason="FieldValueForbidden"), properties={"a": TEXT}), {}, ABSENT,
         ["f: Forbidden: m"]),
        (ruled("object", rule("false", message="m", reason="FieldValueRequired"), properties={"a": TEXT}), {}, ABSENT,
         ["f: Required value: m"]),
        (ruled("object", rule("self.a == 'x'"), properties={"a": TEXT}), {}, ABSENT,
         ['f: Invalid value: "object": no such key: a evaluating rule: self.a == \'x\'']),
        (ruled("object", rule("self.all(k, self[k] > 0)", message="m"), additionalProperties={"type": "integer"}),
         {"a": 1, "b": 0}, ABSENT, ['f: Invalid value: m']),
        (ruled("object", rule("self.__namespace__ == 'a' && self.x__dash__y == 'b'", message="m"),
               properties={"namespace": TEXT, "x-y": TEXT}), {"namespace": "a", "x-y": "b"}, ABSENT, []),
        (ruled("string", rule("self.matches('^[a-z]+$') && self.lowerAscii() == self", message="m")), "abc", ABSENT,
         []),
        (ruled("string", rule("self.split(',').exists(p, p == 'b')", message="m")), "a,b", ABSENT, []),
        (ruled("string", rule("isURL(self) && !isIP(self)", message="m")), "http://a/b", ABSENT, []),
        (ruled("array", rule("self.exists_one(x, x == 'a')", message="m"), items=TEXT), ["a", "a"], ABSENT,
         ['f: Invalid value: m']),
        (ruled("string", rule("duration(self) >= duration('1ms')", message="m")), "500us", ABSENT,
         ['f: Invalid value: "500us": m']),
    ],
)  # fmt: skip
def test_rules(schema: dict[str, Any], value: Any, old: Any, found: list[str]) -> None:
    assert texts(value, schema, old) == found


def test_rules_are_found_below_lists_and_maps() -> None:
    inner = ruled("integer", rule("self > 0", message="m"))
    assert texts([1, 0], {"type": "array", "items": inner}) == ["f[1]: Invalid value: 0: m"]
    assert texts({"k": 0}, {"type": "object", "additionalProperties": inner}) == ["f[k]: Invalid value: 0: m"]


def test_rules_wait_for_a_sound_object() -> None:
    schema = ruled("object", rule("self.a > 0", message="m"), properties={"a": {"type": "integer"}})
    assert texts({"a": "x"}, schema)[1:] == [f'<nil>: Invalid value: null: {NOT_CHECKED}']


def crd(root: dict[str, Any], **version: Any) -> dict[str, Any]:
    names = {"kind": "Widget", "plural": "widgets"}
    served = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}, **version}
    spec = {"group": "demo.io", "names": names, "scope": "Namespaced", "versions": [served]}
    return {"metadata": {"name": "widgets.demo.io"}, "spec": spec}


def test_the_root_rule_sees_only_names_of_the_metadata() -> None:
    schema = ruled("object", rule("!has(self.metadata.labels) && self.metadata.name == 'n'", message="m"))
    resource = CustomResource.from_crd(crd(schema), "v1")
    assert resource.faults({"metadata": {"name": "n", "labels": {"a": "b"}}}) == []
    [fault] = resource.faults({"metadata": {"name": "o"}})
    assert (fault.field, fault.message) == ("<nil>", 'Invalid value: m')


def test_the_status_of_a_refused_object() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": TEXT}, "required": ["b"]}
    resource = CustomResource.from_crd(crd(schema), "v1")
    with pytest.raises(StatusError) as caught:
        resource.validate({"metadata": {"name": "w"}, "a": "x"}, None, "")
    error = caught.value
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.message == (
        'Widget.demo.io "w" is invalid: [b: Required value, a: Invalid value: "string": a in body must be of type '
        'integer: "string"]'
    )
    assert error.details is not None and [c["reason"] for c in error.details["causes"]] == [
        "FieldValueRequired",
        "FieldValueTypeInvalid",
    ]


@pytest.mark.parametrize(
    ("version", "part"),
    [
        ({"schema": {"openAPIV3Schema": ruled("object", rule("self.("))}}, "openAPIV3Schema"),
        ({"schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": {"pattern": "("}}}}}, "openAPIV3Schema"),
        ({"additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": "a b"}]}, "JSON path"),
    ],
)
def test_a_definition_that_cannot_be_used(version: dict[str, Any], part: str) -> None:
    with pytest.raises(SchemaError, match=part):
        CustomResource.from_crd(crd({"type": "object"}, **version), "v1")


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"labels": {"a": 1}}, "number into Go struct field ObjectMeta.metadata.labels of type string"),
        ({"finalizers": "x"}, "string into Go struct field ObjectMeta.metadata.finalizers of type []string"),
        ({"ownerReferences": [{"controller": "yes"}]},
         "string into Go struct field OwnerReference.metadata.ownerReferences.controller of type bool"),
    ],
)  # fmt: skip
def test_metadata_of_a_wrong_type_is_a_bad_request(metadata: dict[str, Any], text: str) -> None:
    resource = CustomResource.from_crd(crd({"type": "object"}), "v1")
    with pytest.raises(StatusError) as caught:
        resource.decode({"metadata": {"name": "w", **metadata}})
    assert caught.value.code == 400
    start = 'Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal '
    assert caught.value.message == start + text


def test_nulls_in_the_metadata_are_unset() -> None:
    resource = CustomResource.from_crd(crd({"type": "object"}), "v1")
    decoded, unknown = resource.decode({"metadata": {"name": "w", "creationTimestamp": None, "labels": None}})
    assert unknown == [] and decoded["metadata"] == {"name": "w"}


def test_an_unknown_version() -> None:
    with pytest.raises(SchemaError, match="has no version v9"):
        CustomResource.from_crd(crd({"type": "object"}), "v9")
