"""JSON values as this package handles them: decoded, mutable, with integers kept as integers."""

from __future__ import annotations

from typing import Any

JsonValue = Any
JsonObject = dict[str, Any]
