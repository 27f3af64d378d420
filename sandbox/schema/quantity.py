"""Kubernetes quantities (``500m``, ``2Gi``, ``1e3``), exactly."""

from __future__ import annotations

import re
from fractions import Fraction

_FORM = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))((?:[eE][+-]?\d+)|(?:[numkMGTPE]|[KMGTPE]i)?)")
_POWERS = (-9, -6, -3, 3, 6, 9, 12, 15, 18)
_SUFFIXES = {
    "": Fraction(1),
    **{suffix: Fraction(10) ** power for suffix, power in zip("numkMGTPE", _POWERS, strict=True)},
    **{f"{suffix}i": Fraction(1024) ** (power + 1) for power, suffix in enumerate("KMGTPE")},
}
MALFORMED = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def parse(text: str) -> Fraction:
    """The amount. ``ValueError`` with Kubernetes' text for what is no quantity."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise ValueError(MALFORMED)
    amount, suffix = Fraction(form[1]), form[2]
    scale = _SUFFIXES.get(suffix)
    return amount * (Fraction(10) ** int(suffix[1:]) if scale is None else scale)
