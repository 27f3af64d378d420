"""Bounded names and labels (pinning specification 1.3, rendering specification 3.2)."""

from __future__ import annotations

import hashlib

LABEL_LIMIT = 63
PREFIX_LIMIT = 244


def _hex8(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _bounded(text: str, limit: int, kept: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:kept].rstrip('-.')}-{_hex8(text)}"


def bound_label(name: str) -> str:
    """A label value of at most 63 characters: unchanged, or its first 54, a dash, 8 hex digits of its SHA-256."""
    return _bounded(name, LABEL_LIMIT, 54)


def bound_prefix(prefix: str) -> str:
    """The part of an object name before `-<8 hex>`: at most 244 characters, cut like a label from 235."""
    return _bounded(prefix, PREFIX_LIMIT, 235)


def cut(text: str, limit: int) -> str:
    """`text` if it fits, else 8 hex digits of its SHA-256, a dash, its last `limit` - 9 characters."""
    return text if len(text) <= limit else f"{_hex8(text)}-{text[-(limit - 9) :]}"
