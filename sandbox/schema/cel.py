"""``x-kubernetes-validations``: CEL rules, compiled once and evaluated against one value.

The evaluator is ``common-expression-language``: a native library, some twenty microseconds a rule, no types to declare
(``cel-python`` is pure Python and far slower, ``cel-expr-python`` wants every field declared). The string, list and
address helpers that Kubernetes adds to CEL are registered here; its static type check and cost estimate are not made.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import cel

from sandbox.jsontypes import JsonObject, JsonValue

_RESERVED = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
     "let", "loop", "package", "namespace", "return", "var", "void", "while"}
)  # fmt: skip


def _find(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found[0] if found else ""


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and (parts.netloc or parts.path.startswith("/"))) or text.startswith("/")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "lowerAscii": lambda text: "".join(c.lower() if c.isascii() else c for c in text),
    "upperAscii": lambda text: "".join(c.upper() if c.isascii() else c for c in text),
    "trim": lambda text: text.strip(),
    "split": lambda text, separator, limit=-1: text.split(separator) if limit < 0 else text.split(separator, limit - 1),
    "join": lambda items, separator="": separator.join(items),
    "replace": lambda text, old, new, count=-1: text.replace(old, new, count),
    "substring": lambda text, start, end=None: text[start:end],
    "indexOf": lambda where, what: where.find(what) if isinstance(where, str) else _index(where, what),
    "lastIndexOf": lambda text, what: text.rfind(what),
    "charAt": lambda text, index: text[index : index + 1],
    "find": _find,
    "findAll": lambda text, pattern: [m[0] for m in re.finditer(pattern, text)],
    "isSorted": lambda items: all(a <= b for a, b in pairwise(items)),
    "sum": lambda items: sum(items),
    "isURL": _is_url,
    "isIP": _is_ip,
    "isCIDR": _is_cidr,
}


def _index(items: list[JsonValue], item: JsonValue) -> int:
    return items.index(item) if item in items else -1


def escape(name: str) -> str:
    """The CEL name of a member (Kubernetes' escapes for keywords and for ``-``, ``.``, ``/``, ``__``)."""
    if name in _RESERVED:
        return f"__{name}__"
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and "__" not in name:
        return name
    parts = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
    return re.sub(r"__|[.\-/]", lambda m: parts[m[0]], name)


def _escaped(value: JsonValue) -> JsonValue:
    """A copy that answers to escaped member names beside the plain ones (maps are read by their plain keys)."""
    if isinstance(value, dict):
        copied = {key: _escaped(child) for key, child in value.items()}
        return copied | {escape(key): child for key, child in copied.items()}
    return [_escaped(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class Broken:
    """A rule that does not hold, or (``evaluated`` is false) that could not be evaluated."""

    message: str
    evaluated: bool = True


@dataclass(frozen=True)
class Rule:
    """One rule of a schema."""

    source: str
    message: str
    message_program: Any
    program: Any
    reason: str
    field_path: str
    uses_old: bool
    optional_old: bool
    escaped: bool

    @staticmethod
    def compile(rule: JsonObject) -> Rule:
        """Compiles an entry of ``x-kubernetes-validations``; ``ValueError`` tells what is wrong with it."""
        source = rule["rule"]
        program = cel.compile(source)
        shown = rule.get("messageExpression")
        return Rule(
            source=source.strip(),
            message=rule.get("message", "").strip(),
            message_program=cel.compile(shown) if shown else None,
            program=program,
            reason=rule.get("reason", "") or "FieldValueInvalid",
            field_path=rule.get("fieldPath", ""),
            uses_old="oldSelf" in program.variables(),
            optional_old=bool(rule.get("optionalOldSelf")),
            escaped="__" in source or "__" in (shown or ""),
        )

    def check(self, value: JsonValue, old: JsonValue, has_old: bool) -> Broken | None:
        """None when the rule holds (a transition rule also when there is no old value), else what is told."""
        if self.uses_old and not has_old and not self.optional_old:
            return None
        context = self._context(value, old, has_old)
        shown = self.message or self.source
        try:
            holds = self.program.execute(context)
        except Exception as error:  # the library raises KeyError, TypeError, ValueError, RuntimeError
            text = f"no such key: {error.args[0]}" if isinstance(error, KeyError) else str(error)
            return Broken(f"{text} evaluating rule: {shown}", evaluated=False)
        if holds is True:
            return None
        return Broken(self._dynamic(context) or self.message or f"failed rule: {self.source}")

    def _context(self, value: JsonValue, old: JsonValue, has_old: bool) -> Any:
        context = cel.Context(functions=FUNCTIONS)
        context.add_variable("self", _escaped(value) if self.escaped else value)
        if self.uses_old:
            previous = _escaped(old) if self.escaped else old
            if self.optional_old:
                previous = cel.OptionalValue.of(previous) if has_old else cel.OptionalValue.none()
            context.add_variable("oldSelf", previous)
        return context

    def _dynamic(self, context: Any) -> str:
        if self.message_program is None:
            return ""
        try:
            text = self.message_program.execute(context)
        except Exception:  # a message that fails falls back to the static one, as in Kubernetes
            return ""
        return text.strip() if isinstance(text, str) and "\n" not in text.strip() else ""
