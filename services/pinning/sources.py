"""Runtime references, sources and the names of their snapshots (pinning specification 1.2, 1.3, 4)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from services.kit import names

SR = "ServingRuntime"
CSR = "ClusterServingRuntime"
KINDS = (SR, CSR)
_TAIL = re.compile(r"-[0-9a-f]{8}\Z")


@dataclass(frozen=True, slots=True)
class Source:
    """A runtime: kind, namespace (empty for a cluster runtime), name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """`ClusterServingRuntime <name>` or `ServingRuntime <ns>/<name>`, as messages print it."""
        return f"{CSR} {self.name}" if self.kind == CSR else f"{SR} {self.namespace}/{self.name}"

    @property
    def prefix(self) -> str:
        """Object-name prefix of its snapshots, before `-<8 hex>`, bounded."""
        raw = f"cr-{self.name}" if self.kind == CSR else f"r-{self.namespace}-{self.name}"
        return names.bound_prefix(raw)

    @property
    def pattern(self) -> str:
        """The naming convention as admission prints it."""
        return f"{self.prefix}-<8 lowercase hex chars>"

    def shapes(self, object_name: str) -> bool:
        """Whether an object name has this source's shape: the prefix literally, then exactly 8 of `[0-9a-f]`."""
        head, tail = object_name[: len(self.prefix)], object_name[len(self.prefix) :]
        return head == self.prefix and len(tail) == 9 and _TAIL.match(tail) is not None


@dataclass(frozen=True, slots=True)
class Reference:
    """`spec.runtime` as far as the lookup needs it; `kind` is empty when omitted."""

    kind: str
    name: str
    namespace: str

    def sources(self) -> tuple[Source, ...]:
        """The sources the reference may mean, in lookup order: cluster, then namespace."""
        cluster, local = Source(CSR, "", self.name), Source(SR, self.namespace, self.name)
        if self.kind == CSR:
            return (cluster,)
        return (local,) if self.kind == SR else (cluster, local)

    def shapes(self, object_name: str) -> bool:
        """Whether a snapshot name has a shape of this reference; with the kind omitted either does."""
        return any(source.shapes(object_name) for source in self.sources())

    @property
    def absent(self) -> str:
        """The text when nothing of that name exists (section 4)."""
        if self.kind == CSR:
            return f"{CSR} {self.name} not found"
        if self.kind == SR:
            return f"{SR} {self.name} not found in namespace {self.namespace}"
        return f"runtime {self.name} not found at cluster scope or in namespace {self.namespace}"
