"""How a pod of the sandbox behaves: what the annotations under ``sandbox.ome.io/`` say.

Each key is looked up on the pod first, then on the Deployment that owns it, then on its namespace, so that pods that
run already can be switched without a new template:

| annotation | value (default) | meaning |
|---|---|---|
| ``sandbox.ome.io/unschedulable`` | bool (false) | the scheduler finds no node |
| ``sandbox.ome.io/image-pull-fails`` | bool (false) | the image never arrives: ``ImagePullBackOff`` |
| ``sandbox.ome.io/startup-seconds`` | seconds (0) | from the binding to a node until the containers run |
| ``sandbox.ome.io/ready-seconds`` | seconds (0) | from then until the pod is ready |
| ``sandbox.ome.io/ready`` | bool (true) | false: readiness fails, at once for a pod that runs |
| ``sandbox.ome.io/crash`` | bool or a container's name (false) | the first (or the named) container keeps exiting |
| ``sandbox.ome.io/crash-after-seconds`` | seconds (0) | how long it runs before it exits |
| ``sandbox.ome.io/exit-code`` | 0 to 255 (1) | what it exits with |
| ``sandbox.ome.io/termination-seconds`` | seconds (0) | from deletion until it is gone, at most its grace period |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

PREFIX = "sandbox.ome.io/"
UNSCHEDULABLE = PREFIX + "unschedulable"
IMAGE_PULL_FAILS = PREFIX + "image-pull-fails"
STARTUP_SECONDS = PREFIX + "startup-seconds"
READY_SECONDS = PREFIX + "ready-seconds"
READY = PREFIX + "ready"
CRASH = PREFIX + "crash"
CRASH_AFTER_SECONDS = PREFIX + "crash-after-seconds"
EXIT_CODE = PREFIX + "exit-code"
TERMINATION_SECONDS = PREFIX + "termination-seconds"

LONGEST_SECONDS = 86_400.0


@dataclass(frozen=True)
class Behaviour:
    """What a pod does; times in seconds."""

    unschedulable: bool = False
    image_pull_fails: bool = False
    startup_seconds: float = 0.0
    ready_seconds: float = 0.0
    ready: bool = True
    crash: str = ""
    """Empty: no container crashes; ``*``: the first one; else the name of the one that does."""
    crash_after_seconds: float = 0.0
    exit_code: int = 1
    termination_seconds: float = 0.0


def _bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError('must be "true" or "false"')
    return text == "true"


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("must be a number of seconds, for example 1.5") from None
    if not 0 <= value <= LONGEST_SECONDS:
        raise ValueError(f"must be from 0 to {LONGEST_SECONDS:.0f} seconds")
    return value


def _crash(text: str) -> str:
    return {"true": "*", "false": ""}.get(text, text)


def _exit_code(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > 255:
        raise ValueError("must be a whole number from 0 to 255")
    return int(text)


_READERS: dict[str, tuple[str, Any]] = {
    UNSCHEDULABLE: ("unschedulable", _bool),
    IMAGE_PULL_FAILS: ("image_pull_fails", _bool),
    STARTUP_SECONDS: ("startup_seconds", _seconds),
    READY_SECONDS: ("ready_seconds", _seconds),
    READY: ("ready", _bool),
    CRASH: ("crash", _crash),
    CRASH_AFTER_SECONDS: ("crash_after_seconds", _seconds),
    EXIT_CODE: ("exit_code", _exit_code),
    TERMINATION_SECONDS: ("termination_seconds", _seconds),
}


def read(defaults: Behaviour, layers: Sequence[Mapping[str, str]]) -> tuple[Behaviour, list[str]]:
    """The behaviour that annotation maps describe, the first map that has a key winning.

    Also answers one text for each fault: an unknown key under the prefix, or a value that cannot be read (the default
    then stays in force).
    """
    values: dict[str, Any] = {}
    faults: list[str] = []
    seen: set[str] = set()
    for layer in layers:
        for key, text in layer.items():
            if not key.startswith(PREFIX) or key in seen:
                continue
            seen.add(key)
            if key not in _READERS:
                faults.append(f"annotation {key} is not known to the sandbox; known are {', '.join(sorted(_READERS))}")
                continue
            name, reader = _READERS[key]
            try:
                values[name] = reader(text)
            except ValueError as error:
                faults.append(f'annotation {key}: invalid value "{text}": {error}')
    return replace(defaults, **values), faults


def differs(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether two annotation maps describe different behaviour."""
    return _own(before) != _own(after)


def _own(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if key.startswith(PREFIX)}
