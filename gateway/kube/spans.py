"""Where the parts of a JSON text are, without decoding them and without recursion.

For texts that a JSON parser has written; of others it may take what is none for JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import orjson

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]')
_OPEN, _CLOSE = (b"{", b"["), (b"}", b"]")


def members(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The members of an object: key, text of the value. ValueError when `data` is no object."""
    for part in _parts(data, b"{"):
        key = _TOKEN.match(part)
        colon = part.find(b":", key.end()) if key else -1
        if key is None or colon < 0:
            raise ValueError("a member without a key")
        yield orjson.loads(key.group()), part[colon + 1 :].strip()


def elements(data: bytes) -> Iterator[bytes]:
    """The elements of an array, as texts. ValueError when `data` is no array."""
    return _parts(data, b"[")


def join(parts: Iterable[tuple[str, bytes]]) -> bytes:
    """The object with these members."""
    return b"{" + b",".join(orjson.dumps(key) + b":" + value for key, value in parts) + b"}"


def _parts(data: bytes, opening: bytes) -> Iterator[bytes]:
    """The texts between the commas of the outermost object or array."""
    data = data.strip()
    if not data.startswith(opening):
        raise ValueError(f"does not begin with {opening.decode()}")
    depth, start = 0, 1
    for found in _TOKEN.finditer(data):
        token = found.group()
        if token in _OPEN:
            depth += 1
        elif token in _CLOSE:
            depth -= 1
            if depth == 0:
                last = data[start : found.start()].strip()
                if last:
                    yield last
                if found.end() != len(data):
                    raise ValueError("something follows the end")
                return
        elif token == b"," and depth == 1:
            yield data[start : found.start()].strip()
            start = found.end()
    raise ValueError("it does not end")
