"""Times as Kubernetes writes them: RFC 3339 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

RFC3339 = "%Y-%m-%dT%H:%M:%SZ"
"""Format of `timestamp`, to read one back."""


def timestamp(moment: datetime) -> str:
    """``metav1.Time`` of an aware time: whole seconds."""
    return moment.astimezone(UTC).strftime(RFC3339)


def micro_timestamp(moment: datetime) -> str:
    """``metav1.MicroTime`` of an aware time: six digits of a second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
