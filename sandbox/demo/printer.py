"""What kubectl would print, from the tables that the API server makes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

from sandbox.jsontypes import JsonObject

GAP = "   "


def rows(
    table: JsonObject, wide: bool = False, labels: Sequence[str] = (), without: Sequence[str] = ()
) -> list[list[str]]:
    """Header and cells of a ``meta.k8s.io/v1`` Table as kubectl shows them.

    ``wide`` shows every column, ``labels`` adds columns of labels (kubectl's ``-L``), ``without`` leaves columns out.
    """
    columns = [
        (index, column["name"])
        for index, column in enumerate(table["columnDefinitions"])
        if (wide or not column.get("priority")) and column["name"].upper() not in without
    ]
    header = [name.upper() for _, name in columns] + [label.rpartition("/")[2].upper() for label in labels]
    lines = [header]
    for row in table.get("rows") or ():
        own = ((row.get("object") or {}).get("metadata") or {}).get("labels") or {}
        lines.append([_cell(row["cells"][index]) for index, _ in columns] + [own.get(label, "") for label in labels])
    return lines


def _cell(value: object) -> str:
    if value is None:
        return "<none>"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).split("\n", 1)[0]


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines of text in columns, three spaces apart."""
    if not lines:
        return []
    widths = [max(len(row[index]) for row in lines) for index in range(len(lines[0]))]
    return [GAP.join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in lines]


class Teller:
    """Writes the story: headings, prose, command lines and their output; in bold and grey on a terminal."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._colour = self._out.isatty()

    def heading(self, text: str) -> None:
        """A step begins."""
        self._write(f"\n{self._style('1', text)}")

    def prose(self, text: str) -> None:
        """What happens and why."""
        self._write(text)

    def command(self, line: str) -> None:
        """A command as the reader could type it."""
        self._write(f"  {self._style('36', '$ ' + line)}")

    def output(self, lines: Sequence[str]) -> None:
        """What the command prints."""
        for line in lines:
            self._write(f"  {line}")

    def _style(self, code: str, text: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self._colour else text

    def _write(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()
