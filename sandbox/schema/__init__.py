"""Structural schemas as kube-apiserver applies them: pruning, defaults, validation, CEL rules and printer columns."""

from sandbox.schema.custom import CustomResource, SchemaError
from sandbox.schema.decoding import decode
from sandbox.schema.defaults import apply_defaults, prune_nulls
from sandbox.schema.node import Node, compile_schema
from sandbox.schema.validation import Fault, blocking, validate

__all__ = [
    "CustomResource",
    "Fault",
    "Node",
    "SchemaError",
    "apply_defaults",
    "blocking",
    "compile_schema",
    "decode",
    "prune_nulls",
    "validate",
]
