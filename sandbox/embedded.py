"""The embedded cluster as one process: API server, CRDs of the suite, workload model, kubeconfig."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from sandbox.api.handler import ApiServer
from sandbox.api.messages import Request, Response
from sandbox.clock import SystemClock
from sandbox.http import HttpServer
from sandbox.jsontypes import JsonObject
from sandbox.store import Store
from sandbox.workloads import Behaviour, WorkloadModel

OME_NAMESPACE = "ome"
_CRD_FOLDERS = (Path(__file__).parent.parent / "deploy" / "crds", Path(__file__).parent / "crds")


class ClusterError(Exception):
    """The embedded cluster cannot start; the text says why and what helps."""


def crd_files() -> list[Path]:
    """The suite's CustomResourceDefinitions, in the checkout or in the installed package. Raises ``ClusterError``."""
    for folder in _CRD_FOLDERS:
        found = sorted(path for path in folder.glob("*.yaml") if path.name != "kustomization.yaml")
        if found:
            return found
    raise ClusterError("the CustomResourceDefinitions of the suite are missing; install the suite again")


def documents(path: Path) -> list[JsonObject]:
    """The objects of a YAML file."""
    return [document for document in yaml.safe_load_all(path.read_text("utf-8")) if document]


def load(api: ApiServer, objects: list[JsonObject]) -> None:
    """Creates objects in order; those that exist stay as they are. Raises ``ClusterError``."""
    for obj in objects:
        resource = api.registry.by_kind(str(obj.get("apiVersion")), str(obj.get("kind")))
        if resource is None:
            raise ClusterError(f"kind {obj.get('kind')} of {obj.get('apiVersion')} is not served")
        root = "/api/v1" if not resource.group else f"/apis/{resource.api_version}"
        namespace = obj["metadata"].get("namespace") or "default"
        scope = f"/namespaces/{namespace}" if resource.namespaced else ""
        path = f"{root}{scope}/{resource.plural}?fieldManager=ome-sandbox"
        answer = api.handle(Request.of("POST", path, obj))
        if isinstance(answer, Response) and answer.status >= 400 and answer.json().get("reason") != "AlreadyExists":
            raise ClusterError(f"{obj['kind']} {obj['metadata'].get('name')}: {answer.json().get('message')}")


def kubeconfig(url: str) -> str:
    """The text of a kubeconfig for the embedded cluster, which lets every caller on the loopback in."""
    name = "ome-sandbox"
    return yaml.safe_dump({
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": url}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "users": [{"name": name, "user": {}}],
    }, sort_keys=False)  # fmt: skip


def write_private(path: Path, text: str) -> None:
    """Writes a file that only its owner reads, replacing it in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)


@dataclass
class EmbeddedCluster:
    """A running cluster; port 0 takes a free one, and ``url`` names it once ``start`` is done."""

    host: str = "127.0.0.1"
    port: int = 0
    nodes: int = 1
    defaults: Behaviour = field(default_factory=Behaviour)
    _server: HttpServer | None = None
    _model: WorkloadModel | None = None
    _running: asyncio.Task[None] | None = None

    @property
    def api(self) -> ApiServer:
        """The API server behind the socket."""
        assert self._server is not None
        return self._server.api

    @property
    def url(self) -> str:
        """The address for clients."""
        assert self._server is not None
        return self._server.url

    async def start(self) -> None:
        """Listens, with CRDs and the OME namespace in place. Raises ``OSError`` and ``ClusterError``."""
        clock = SystemClock()
        # Revisions of an earlier world on this port are too old here, so clients list anew instead of watching on.
        api = ApiServer(Store(clock, origin=int(clock.now().timestamp() * 1000)))
        load(api, [document for path in crd_files() for document in documents(path)])
        load(api, [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OME_NAMESPACE}}])
        self._model = WorkloadModel(api, self.nodes, self.defaults)
        self._model.on_fault = _told
        self._server = HttpServer(api, self.host, self.port)
        await self._server.start()
        self._running = asyncio.create_task(self._model.serve())

    async def stop(self) -> None:
        """Ends everything; what was stored is gone."""
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running
        if self._model is not None:
            self._model.close()
        if self._server is not None:
            await self._server.stop()


def _told(key: tuple[str, str, str], fault: Exception) -> None:
    bucket, namespace, name = key
    where = f"{namespace}/{name}" if namespace else name
    sys.stderr.write(f"ome-sandbox: {bucket} {where} is left alone: {type(fault).__name__}: {fault}\n")


async def serve(cluster: EmbeddedCluster, folder: Path, ended: Callable[[], asyncio.Event]) -> None:
    """Runs the cluster until the event is set: writes ``kubeconfig`` into ``folder``, prints one serving line."""
    stop = ended()
    await cluster.start()
    try:
        try:
            write_private(folder / "kubeconfig", kubeconfig(cluster.url))
        except OSError as error:
            why = f"{error.strerror}; choose another --dir"
            raise ClusterError(f"cannot write {folder / 'kubeconfig'}: {why}") from None
        sys.stdout.write(f"ome-sandbox serving on {cluster.url.split('//', 1)[1]}\n")
        sys.stdout.flush()
        await stop.wait()
    finally:
        await cluster.stop()
