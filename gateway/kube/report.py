"""Troubles with the cluster in the log: each once, however many parts of the gateway meet it."""

from __future__ import annotations

import structlog

_log = structlog.get_logger(__name__)


class Reporter:
    """Remembers who is in which trouble. A text is logged when the first source meets it, and not again while any
    source still does, so that eight reflectors before an API server that is away make one line."""

    def __init__(self) -> None:
        self._troubles: dict[str, str] = {}

    def trouble(self, source: str, text: str) -> None:
        """`source` (a kind, the election) cannot do its work; `text` is for the user."""
        if text not in self._troubles.values():
            _log.warning(text)
        self._troubles[source] = text

    def well(self, source: str) -> None:
        """`source` works (again). Logged when the last one with that trouble is out of it."""
        text = self._troubles.pop(source, None)
        if text is not None and text not in self._troubles.values():
            _log.info("over: " + text)

    @property
    def troubles(self) -> dict[str, str]:
        """Who is in trouble now, and in which."""
        return dict(self._troubles)
