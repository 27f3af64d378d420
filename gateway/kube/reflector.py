"""Keeps a cache current."""

from __future__ import annotations

from gateway.kube.cache import Cache
from gateway.kube.client import KubeClient
from gateway.kube.kinds import Kind


class Reflector:
    def __init__(self, client: KubeClient, kind: Kind, cache: Cache, namespace: str | None = None) -> None: ...

    async def run(self) -> None:
        """Until cancelled."""
        raise NotImplementedError
