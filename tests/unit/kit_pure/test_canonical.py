"""The fast path against the reference, and every refusal of strict decoding (pinning specification 2)."""

from __future__ import annotations

import json
from typing import Any

import pytest
import rfc8785
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.kit import canonical
from services.kit.canonical import MAX_BYTES, DocumentError, decode
from services.kit.jsontypes import JsonValue

SAFE = 2**53 - 1
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAME = st.one_of(
    st.text("abYZ.-/ ", max_size=6),
    TEXT,
    st.sampled_from(["\U0001f600", "\uffee", "\ue000", "\U00010000x"]),
)
NUMBER = st.one_of(
    st.integers(-SAFE, SAFE),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, -0.0, 1.0, 1e21, 1e-7, 5e-324, 1.7976931348623157e308, 0.1]),
)
SCALAR = st.one_of(st.none(), st.booleans(), NUMBER, TEXT, st.sampled_from(["\x7f", "\u2028", "\U0001f600", "\x00"]))
VALUE = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAME, inner, max_size=4), max_leaves=10
)
DOCUMENT = st.dictionaries(NAME, VALUE, max_size=4)


def without_nulls(value: Any) -> Any:
    """An independent reading of the rule: null members go at every depth, null elements and emptied containers stay."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


@settings(max_examples=5000, deadline=None, suppress_health_check=list(HealthCheck))
@given(DOCUMENT)
def test_the_fast_path_is_the_reference_byte_for_byte(document: dict[str, Any]) -> None:
    assert canonical.canonical(document) == rfc8785.dumps(without_nulls(document))


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(DOCUMENT)
def test_canonical_bytes_are_a_fixed_point(document: dict[str, Any]) -> None:
    data = canonical.canonical(document)
    try:
        again = decode(data)
    except DocumentError as error:  # integral floats between 2^53 and 1e21 have a canonical form that is refused
        assert error.reason == "NUMBER_OUT_OF_RANGE"
        return
    assert canonical.canonical(again) == data


@settings(max_examples=1000, deadline=None)
@given(st.binary(max_size=60))
def test_no_bytes_are_a_crash(data: bytes) -> None:
    try:
        decode(data)
    except DocumentError as error:
        assert error.reason and error.detail


PART = st.sampled_from(
    [
        b'"a"',
        b'"b"',
        b'"\\u0061"',
        b'":"',
        b'"\\":"',
        b'" :"',
        b'"\\u0022\\u003a"',
        b'"\\u003A"',
        b'"\\\\"',
        b'""',
        b'"\xc3\xa9"',
    ]
)
LITERAL = st.one_of(
    PART,
    st.sampled_from([b"1", b"-0", b"1.5", b"1.0", b"1e20", b"1e21", b"1e400", b"null", b"true", b"9007199254740992"]),
    st.sampled_from(
        [b"18446744073709551616", b"01", b"NaN", b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\x01"', b'"\xff"', b""]
    ),
)


def _object(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    colon = st.sampled_from([b":", b" :", b": ", b"\n:"])
    member = st.tuples(PART, colon, inner).map(b"".join)
    return st.lists(member, max_size=4).map(lambda members: b"{" + b",".join(members) + b"}")


WRITTEN = _object(
    st.recursive(
        LITERAL,
        lambda inner: _object(inner) | st.lists(inner, max_size=3).map(lambda items: b"[" + b",".join(items) + b"]"),
        max_leaves=8,
    )
)


def read(data: bytes) -> str:
    """What decoding gives, with the type of every number, or the reason why it is refused."""
    try:
        return repr(decode(data))
    except DocumentError as error:
        return error.reason


@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(WRITTEN)
def test_the_fast_reader_reads_what_the_strict_one_reads(data: bytes) -> None:
    quick = read(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canonical, "_quick", lambda data: None)
        assert quick == read(data)


def test_the_fast_reader_reads_a_common_runtime() -> None:
    assert canonical._quick(b'{"a": ["x:y", 1, null, true], "b": {"c": "d"}}') is not None
    assert canonical._quick(b'{"a":1,"a":1}') is None


REFUSED = [
    (b"", "MALFORMED_JSON", "nothing"),
    (b"   ", "MALFORMED_JSON", "blanks"),
    (b"{", "MALFORMED_JSON", "an open object"),
    (b"{}{}", "MALFORMED_JSON", "two documents"),
    (b"{} x", "MALFORMED_JSON", "something behind"),
    (b'{"a":1,}', "MALFORMED_JSON", "a trailing comma"),
    (b"{'a':1}", "MALFORMED_JSON", "single quotes"),
    (b'{"a":01}', "MALFORMED_JSON", "a leading zero"),
    (b'{"a":+1}', "MALFORMED_JSON", "a plus sign"),
    (b'{"a":.5}', "MALFORMED_JSON", "no digit before the point"),
    (b'{"a":1.}', "MALFORMED_JSON", "no digit behind the point"),
    (b'{"a":tru}', "MALFORMED_JSON", "a broken word"),
    (b'{"a":"\x01"}', "MALFORMED_JSON", "a bare control character"),
    (b'{"a":"\\x"}', "MALFORMED_JSON", "an unknown escape"),
    (b'{"a":"\\u12"}', "MALFORMED_JSON", "a short escape"),
    (b"\xef\xbb\xbf{}", "MALFORMED_JSON", "a byte-order mark"),
    (b'{"a":"\xff"}', "MALFORMED_JSON", "invalid UTF-8"),
    (b'{"a":"\xed\xa0\x80"}', "MALFORMED_JSON", "an encoded surrogate"),
    (b'{"a":"\\ud800"}', "MALFORMED_JSON", "a lone high surrogate"),
    (b'{"a":"\\udc00\\ud800"}', "MALFORMED_JSON", "surrogates the wrong way round"),
    (b'{"\\ud800":1}', "MALFORMED_JSON", "a lone surrogate in a name"),
    (b'{"a":NaN}', "MALFORMED_JSON", "NaN"),
    (b'{"a":Infinity}', "MALFORMED_JSON", "Infinity"),
    (b'{"a":-Infinity}', "MALFORMED_JSON", "minus Infinity"),
    ('{"a":1\u00a0}'.encode(), "MALFORMED_JSON", "a blank JSON does not know"),
    ('{"a":\u0661}'.encode(), "MALFORMED_JSON", "a digit of another script"),
    (b'{"a":1,"a":1}', "DUPLICATE_MEMBER", "a member twice"),
    (b'{"x":[{"a":1,"\\u0061":2}]}', "DUPLICATE_MEMBER", "equal once the escape is read, in the depth"),
    (b'{"a":null,"a":1}', "DUPLICATE_MEMBER", "one of them null"),
    (b'{"a":1,"a":"\\u003a"}', "DUPLICATE_MEMBER", "an escaped colon beside"),
    (b'{"a" :1,"a"\n:1}', "DUPLICATE_MEMBER", "blanks before the colons"),
    (b'x{"a":1}', "MALFORMED_JSON", "something before"),
    (b'{"a":1e999999999}', "NUMBER_OUT_OF_RANGE", "an exponent beyond measure"),
    (b'{"a":900719925474099200e-2}', "NUMBER_OUT_OF_RANGE", "2^53 by another literal"),
    (b'{"a":9007199254740992}', "NUMBER_OUT_OF_RANGE", "2^53"),
    (b'{"a":-9007199254740992}', "NUMBER_OUT_OF_RANGE", "minus 2^53"),
    (b'{"a":9007199254740992.0}', "NUMBER_OUT_OF_RANGE", "2^53 as a float"),
    (b'{"a":1e20}', "NUMBER_OUT_OF_RANGE", "integral and below 1e21"),
    (b'{"a":1e400}', "NUMBER_OUT_OF_RANGE", "overflow"),
    (b'{"a":-1e400}', "NUMBER_OUT_OF_RANGE", "negative overflow"),
    (b'{"a":' + b"9" * 5000 + b"}", "NUMBER_OUT_OF_RANGE", "thousands of digits"),
    (b'{"a":' + b"0." + b"0" * 5 + b"1e999999}", "NUMBER_OUT_OF_RANGE", "a huge exponent"),
    (b"[]", "NOT_AN_OBJECT", "an array"),
    (b"null", "NOT_AN_OBJECT", "null"),
    (b'"x"', "NOT_AN_OBJECT", "a string"),
    (b"1", "NOT_AN_OBJECT", "a number"),
    (b"true", "NOT_AN_OBJECT", "a boolean"),
    (b'{"a":' + b"[" * 128 + b"]" * 128 + b"}", "DOCUMENT_TOO_DEEP", "129 levels"),
    (b"[" * 100_000, "DOCUMENT_TOO_DEEP", "a bomb of brackets"),
    (b'{"a":' * 100_000, "DOCUMENT_TOO_DEEP", "a bomb of objects"),
    (b"[" * 200 + b'"' + b'\\"' * 400_000, "DOCUMENT_TOO_DEEP", "an open string of escaped quotes, read once"),
    (b'{"a":["' + b"[" * 200 + b"\\", "MALFORMED_JSON", "an open string that ends in a backslash"),
    (b'{"a":"' + b"x" * MAX_BYTES + b'"}', "DOCUMENT_TOO_LARGE", "over 1 MiB"),
]


@pytest.mark.parametrize(("data", "reason", "why"), REFUSED, ids=[why for _, _, why in REFUSED])
def test_refused(data: bytes, reason: str, why: str) -> None:
    with pytest.raises(DocumentError) as caught:
        decode(data)
    assert caught.value.reason == reason, why
    assert caught.value.detail


ACCEPTED = [
    (b' {"a" : 1}\n', {"a": 1}, "blanks around"),
    (b'{"a":9007199254740991}', {"a": SAFE}, "the largest integer"),
    (b'{"a":1e21}', {"a": 1e21}, "integral, but at the limit that JCS writes with an exponent"),
    (b'{"a":-0}', {"a": 0}, "minus zero"),
    (b'{"a":1e-400}', {"a": 0.0}, "underflow is zero"),
    (b'{"a":"\\ud83d\\ude00"}', {"a": "\U0001f600"}, "a surrogate pair"),
    (b'{"a":"[[[["}', {"a": "[[[["}, "brackets in a string are no nesting"),
    (b'{"a":' + b"[" * 127 + b"]" * 127 + b"}", json.loads('{"a":' + "[" * 127 + "]" * 127 + "}"), "128 levels"),
    (b'{"a":"' + b"[" * 300 + b'\\"' + b"{" * 300 + b'"}', {"a": "[" * 300 + '"' + "{" * 300}, "long string"),
    (b'{"a":"' + b"x" * (MAX_BYTES - 8) + b'"}', {"a": "x" * (MAX_BYTES - 8)}, "exactly 1 MiB"),
]


@pytest.mark.parametrize(("data", "value", "why"), ACCEPTED, ids=[why for _, _, why in ACCEPTED])
def test_accepted(data: bytes, value: dict[str, Any], why: str) -> None:
    assert decode(data) == value, why


def test_an_integer_that_jcs_cannot_tell_names_its_path() -> None:
    with pytest.raises(DocumentError, match=r"/a/1/b"):
        canonical.canonical({"a": [0, {"b": 2**53}]})


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_json_is_refused_wherever_it_stands(number: float) -> None:
    values: list[JsonValue] = [{"a": number}, {"a": [number]}, {"a": [1, number]}, number]
    for value in values:
        with pytest.raises(DocumentError) as caught:
            canonical.canonical(value)
        assert caught.value.reason == "NUMBER_OUT_OF_RANGE"


def test_null_elements_stay() -> None:
    assert canonical.canonical({"a": [None, 1, None]}) == b'{"a":[null,1,null]}'
