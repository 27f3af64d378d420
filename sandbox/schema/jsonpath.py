"""The part of JSONPath that printer columns use: members, indexes, ``[*]`` and equality filters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from sandbox.jsontypes import JsonValue

Step: TypeAlias = Callable[[JsonValue], Iterator[JsonValue]]
_TOKEN = re.compile(
    r"""\.(?P<name>(?:\\.|[^.\[\\])+)
      | \[(?P<index>-?\d+)\]
      | \['(?P<quoted>[^']*)'\]
      | \[(?P<all>\*)\]
      | \[\?\(@(?P<path>(?:\.[\w\-/\\.]+?)+)\s*(?P<op>==|!=)\s*(?P<literal>"[^"]*"|'[^']*'|-?\d+|true|false)\s*\)\]""",
    re.VERBOSE,
)


def compile_path(path: str) -> Callable[[JsonValue], list[JsonValue]]:
    """A function from a value to what the path finds in it. Raises ``ValueError`` for what is not understood."""
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps: list[Step] = []
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise ValueError(f"unsupported JSON path {path!r}")
        steps.append(_step(token))
        position = token.end()

    def find(value: JsonValue) -> list[JsonValue]:
        found = [value]
        for step in steps:
            found = [result for item in found for result in step(item)]
        return found

    return find


def _step(token: re.Match[str]) -> Step:
    if token["index"] is not None:
        return _at(int(token["index"]))
    if token["all"] or token["name"] == "*":
        return _every
    if token["op"]:
        return _filter(token["path"], token["op"], token["literal"])
    name = token["name"] if token["name"] is not None else token["quoted"]
    return _member(re.sub(r"\\(.)", r"\1", name))


def _member(name: str) -> Step:
    def step(value: JsonValue) -> Iterator[JsonValue]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _at(index: int) -> Step:
    def step(value: JsonValue) -> Iterator[JsonValue]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _every(value: JsonValue) -> Iterator[JsonValue]:
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()


def _filter(path: str, operator: str, literal: str) -> Step:
    inner = compile_path(path)
    wanted = literal[1:-1] if literal[0] in "\"'" else literal

    def step(value: JsonValue) -> Iterator[JsonValue]:
        for item in value if isinstance(value, list) else ():
            found = inner(item)
            text = (str(found[0]).lower() if isinstance(found[0], bool) else str(found[0])) if found else None
            if found and (text == wanted) is (operator == "=="):
                yield item

    return step
