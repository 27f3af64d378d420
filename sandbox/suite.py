"""The whole suite on one machine: embedded cluster, four services and gateways as child processes on free ports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.processes import Process, Supervisor

SERVICES = ("pinning", "canary", "traffic", "gc")


@dataclass
class Suite:
    """Processes of the suite over one folder, which gets ``kubeconfig`` and ``logs``.

    ``start`` starts them in order and waits for each; ``stop`` ends them in reverse. Use it as a context manager.
    """

    folder: Path
    otlp_endpoint: str = ""
    port: int = 0
    gateways: int = 1
    gateway_arguments: Sequence[str] = ()
    service_arguments: Sequence[str] = ()
    cluster: Process = field(init=False)
    services: dict[str, Process] = field(init=False, default_factory=dict)
    gateway_processes: list[Process] = field(init=False, default_factory=list)
    supervisor: Supervisor = field(init=False, default_factory=Supervisor)

    def __post_init__(self) -> None:
        arguments = ["serve", "--dir", str(self.folder), "--port", str(self.port)]
        self.cluster = self.supervisor.add(Process("ome-sandbox", "sandbox", arguments, log=self._log("ome-sandbox")))

    @property
    def kubeconfig(self) -> Path:
        """The file that kubectl and the gateways read."""
        return self.folder / "kubeconfig"

    @property
    def url(self) -> str:
        """The API server."""
        return f"http://{self.cluster.address}"

    @property
    def pinning(self) -> Process:
        """The pinning service."""
        return self.services["pinning"]

    @property
    def gateway(self) -> Process:
        """The first gateway."""
        return self.gateway_processes[0]

    def start(self) -> None:
        """Starts everything. Raises ``ProcessError`` with the last lines of what does not serve."""
        self.start_cluster()
        self.start_services()
        self.start_gateways()

    def start_cluster(self) -> None:
        """Starts the embedded cluster alone."""
        self.supervisor.start(self.cluster)

    def start_services(self) -> None:
        """Starts the four services side by side."""
        for name in SERVICES:
            arguments = ["--listen", "127.0.0.1:0", *self._tracing(), *self.service_arguments]
            process = Process(f"ome-{name}", f"services.{name}", arguments, log=self._log(f"ome-{name}"))
            self.services[name] = self.supervisor.add(process)
        self.supervisor.start(*self.services.values())

    def start_gateways(self) -> None:
        """Starts the gateways side by side."""
        self.gateway_processes = [self.make_gateway(number) for number in range(1, self.gateways + 1)]
        self.supervisor.start(*self.gateway_processes)

    def make_gateway(self, number: int = 1, kubeconfig: Path | None = None, extra: Sequence[str] = ()) -> Process:
        """A gateway that is not started yet, in the supervisor's charge."""
        name = "ome-gateway" if number == 1 else f"ome-gateway-{number}"
        arguments = ["--listen", "127.0.0.1:0", "--kubeconfig", str(kubeconfig or self.kubeconfig)]
        for service, process in self.services.items():
            arguments += [f"--{service}", process.address]
        arguments += [*self._tracing(), *self.gateway_arguments, *extra]
        return self.supervisor.add(Process(name, "gateway", arguments, log=self._log(name)))

    def stop(self) -> dict[str, int]:
        """Ends everything; answers the exit status of each process."""
        return self.supervisor.stop()

    def _tracing(self) -> list[str]:
        return ["--otlp-endpoint", self.otlp_endpoint] if self.otlp_endpoint else []

    def _log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def __enter__(self) -> Suite:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
