"""Leader election by a Lease."""

from __future__ import annotations

from collections.abc import Callable

from gateway.kube.client import KubeClient


class Election:
    def __init__(
        self, client: KubeClient, identity: str, namespace: str, name: str = "ome-gateway", *,
        lease_duration: float = 15.0, renew_deadline: float = 10.0, retry_period: float = 2.0,
    ) -> None: ...  # fmt: skip

    @property
    def is_leader(self) -> bool:
        raise NotImplementedError

    def may_write(self) -> bool:
        raise NotImplementedError

    def on_started(self, callback: Callable[[], None]) -> None: ...

    def on_stopped(self, callback: Callable[[], None]) -> None: ...

    async def run(self) -> None:
        """Until cancelled or `stop`."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Graceful end: the caller has stopped writing; releases the lease and ends `run`."""
        raise NotImplementedError
