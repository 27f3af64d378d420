"""The table form of objects: columns, cells and the age of things as kubectl shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import orjson

from sandbox.jsontypes import JsonObject, JsonValue
from sandbox.schema.jsonpath import compile_path

NAME = "Name must be unique within a namespace."
AGE = "CreationTimestamp is a timestamp representing the server time when this object was created."


@dataclass(frozen=True)
class Column:
    """A column and how its cell is read from an object at a time."""

    name: str
    type: str
    cell: Callable[[JsonObject, datetime], JsonValue]
    format: str = ""
    description: str = ""
    priority: int = 0

    def definition(self) -> JsonObject:
        """The ``TableColumnDefinition``."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


def human_duration(seconds: float) -> str:
    """An age: ``7s``, ``2m5s``, ``10m``, ``3h12m``, ``9h``, ``2d5h``, ``9d``, ``3y20d``, ``9y``."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 120:
        return f"{whole}s"
    minutes, hours = whole // 60, whole // 3600
    days = hours // 24
    for limit, text in (
        (minutes < 10, _two(minutes, "m", whole % 60, "s")),
        (minutes < 180, f"{minutes}m"),
        (hours < 8, _two(hours, "h", minutes % 60, "m")),
        (hours < 48, f"{hours}h"),
        (hours < 192, _two(days, "d", hours % 24, "h")),
        (days < 730, f"{days}d"),
        (days < 2920, _two(days // 365, "y", days % 365, "d")),
    ):
        if limit:
            return text
    return f"{days // 365}y"


def _two(major: int, major_unit: str, minor: int, minor_unit: str) -> str:
    return f"{major}{major_unit}{minor}{minor_unit}" if minor else f"{major}{major_unit}"


def age(stamp: JsonValue, now: datetime) -> str:
    """The time since a timestamp, ``<unknown>`` for none."""
    if not isinstance(stamp, str) or not stamp:
        return "<unknown>"
    try:
        return human_duration((now - datetime.fromisoformat(stamp)).total_seconds())
    except (ValueError, TypeError):
        return "<unknown>"


def name_column() -> Column:
    """The first column of every table."""
    return Column("Name", "string", lambda obj, _: obj["metadata"].get("name", ""), "name", NAME)


def age_column(name: str = "Age") -> Column:
    """How long the object exists."""
    return Column(name, "string", lambda obj, now: age(obj["metadata"].get("creationTimestamp"), now), description=AGE)


def custom_columns(declared: list[JsonObject]) -> list[Column]:
    """Name, then ``additionalPrinterColumns`` (an Age when there are none)."""
    columns = [_custom(entry) for entry in declared]
    if not declared:
        entry = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": AGE}
        columns = [_custom(entry)]
    return [name_column(), *columns]


def _custom(entry: JsonObject) -> Column:
    find, kind = compile_path(entry["jsonPath"]), entry["type"]

    def cell(obj: JsonObject, now: datetime) -> JsonValue:
        found = find(obj)
        return _cell(found[0], kind, now) if found else None

    return Column(
        entry["name"], kind, cell, entry.get("format", ""), entry.get("description", ""), entry.get("priority", 0)
    )


def _cell(value: JsonValue, kind: str, now: datetime) -> JsonValue:
    match kind:
        case "integer":
            return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        case "number":
            return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            return age(value, now) if isinstance(value, str) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else orjson.dumps(value).decode()
