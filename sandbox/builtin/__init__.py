"""The built-in kinds the sandbox serves: their resources, schemas, defaults, rules, tables and OpenAPI documents."""

from sandbox.builtin.catalog import BUILTINS, find

__all__ = ["BUILTINS", "find"]
