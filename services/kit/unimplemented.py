"""Servicers whose decisions are not made by this version: every call answers UNIMPLEMENTED, naming itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from google.protobuf.descriptor import ServiceDescriptor

from services.kit import errors

T = TypeVar("T")


def servicer(base: Callable[[], T], service: ServiceDescriptor) -> T:
    """A servicer of the generated class `base` that refuses every method of `service`."""
    methods = {name: _refuse(f"{service.full_name}/{name}") for name in service.methods_by_name}
    return cast(T, type(f"Unimplemented{service.name}", (cast(type, base),), methods)())


def _refuse(method: str) -> Any:
    async def call(_self: object, _request: object, _context: object) -> Any:
        raise errors.unimplemented(f"{method} is not implemented by this version")

    return call
