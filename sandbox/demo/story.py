"""The story of a pin, each step told with the command that a user would type and what kubectl would show."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sandbox.demo.printer import Teller, aligned, rows
from sandbox.embedded import OME_NAMESPACE, documents
from sandbox.jsontypes import JsonObject
from sandbox.kube import Kube, NotYet, eventually, path_of
from sandbox.processes import Supervisor

MANIFESTS = Path(__file__).parent / "manifests"
NAMESPACE, NAME = "echo-lab", "echo"
API = "ome.io/v1beta1"
ISVC = path_of(API, "inferenceservices", NAMESPACE, NAME)
RUNTIME = path_of(API, "servingruntimes", NAMESPACE, NAME)
REVISIONS = path_of("apps/v1", "controllerrevisions", OME_NAMESPACE)
EVENTS = path_of("v1", "events", NAMESPACE)
PLURALS = {"Namespace": "namespaces", "ServingRuntime": "servingruntimes", "InferenceService": "inferenceservices"}
SYNC = "ome.io/runtime-sync"
RUNTIME_OF = "ome.io/runtime-of"


class StoryError(Exception):
    """A step did not come true; the text names it and what was seen last."""


@dataclass
class Story:
    """Tells the steps in order; ``pins`` are the snapshots met so far. ``tell`` raises ``StoryError``."""

    kube: Kube
    teller: Teller
    seconds: float
    processes: Supervisor
    reconciles: Callable[[], int]
    """How many passes over the InferenceService were traced so far."""
    manifests: str = "sandbox/demo/manifests"

    def tell(self) -> None:
        """The whole story."""
        self._step = ""
        steps = (
            ("A runtime and an InferenceService", self._load),
            ("It follows the live runtime", self._follow),
            ("First pin", self._pin),
            ("Drift", self._drift),
            ("Roll forward", self._forward),
            ("Roll back", self._back),
            ("And forward again", self._again),
            ("Release", self._release),
            ("What was told meanwhile", self._tell_events),
        )
        for number, (title, step) in enumerate(steps, 1):
            self._step = f"step {number} ({title})"
            self.teller.heading(f"{number}. {title}")
            try:
                step()
            except NotYet as fault:
                raise StoryError(f"{self._step}: {fault}") from None

    # steps

    def _load(self) -> None:
        self._apply("1-runtime.yaml")
        self._apply("2-inferenceservice.yaml")
        self._show_isvc()

    def _follow(self) -> None:
        self.teller.prose("spec.runtime.autoSync is true by default: an edit of the runtime counts at once, nothing")
        self.teller.prose("is pinned and no snapshot is made.")
        before = self.reconciles()
        self._edit_runtime("hello again")
        eventually(lambda: self.reconciles() > before, self.seconds, "the edit wakes the InferenceService")
        self._expect("status.pinnedRevisionName stays empty", lambda s: not s.get("pinnedRevisionName"))
        self._show_revisions()

    def _pin(self) -> None:
        self.teller.prose("With autoSync off the runtime as it is becomes an immutable snapshot, and the pin names it.")
        self._patch({"spec": {"runtime": {"autoSync": False}}})
        status = self._expect("status.pinnedRevisionName is set", lambda s: bool(s.get("pinnedRevisionName")))
        self.first = str(status["pinnedRevisionName"])
        self._event("RuntimePinned", self.first)
        self._show_isvc()
        self._show_revisions()
        self._show_events("RuntimePinned")

    def _drift(self) -> None:
        self.teller.prose("An edit of the live runtime is seen, told, and not applied: the snapshot stays in force.")
        self._edit_runtime("good morning")
        status = self._expect("condition RuntimeDrifted is True", lambda s: _drifted(s) == "RevisionMismatch")
        self._same(status, self.first)
        self._event("RuntimeDrifted", self.first)
        self._show_drift()

    def _forward(self) -> None:
        self.teller.prose("A new value of ome.io/runtime-sync asks for the live runtime. It is pinned in its turn.")
        self._annotate("1")
        status = self._expect(
            "the pin moves and the token is recorded",
            lambda s: s.get("pinnedRevisionName") not in (None, "", self.first)
            and s.get("lastRuntimeSyncToken") == "1" and not _drifted(s),
        )  # fmt: skip
        self.second = str(status["pinnedRevisionName"])
        self._event("RuntimePinAdvanced", self.second)
        self._show_isvc()
        self._show_revisions()

    def _back(self) -> None:
        self.teller.prose("The old snapshot is still there; naming it in spec.runtime.revision rolls back.")
        self._patch({"spec": {"runtime": {"revision": self.first}}})
        self._expect("the pin is the named revision", lambda s: s.get("pinnedRevisionName") == self.first)
        self._event("RuntimePinExplicit", self.first)
        self._show_isvc()

    def _again(self) -> None:
        self.teller.prose("Without the explicit revision the pin stays; it has drifted from the live runtime again.")
        self._patch({"spec": {"runtime": {"revision": None}}})
        status = self._expect("condition RuntimeDrifted is True", lambda s: _drifted(s) == "RevisionMismatch")
        self._same(status, self.first)
        self._show_drift()
        self.teller.prose("The next token goes forward. The snapshot of that content exists, so it is used again.")
        self._annotate("2")
        self._expect(
            f"the pin is {self.second} again and the drift is gone",
            lambda s: s.get("pinnedRevisionName") == self.second and not _drifted(s),
        )
        if len(self.kube.items(REVISIONS)) != 2:
            raise NotYet("two snapshots are enough, but there are more")
        self._show_isvc()
        self._show_revisions()

    def _release(self) -> None:
        self.teller.prose("autoSync on again: the pin is cleared and the live runtime is followed. Snapshots stay.")
        self._patch({"spec": {"runtime": {"autoSync": True}}})
        self._expect("status.pinnedRevisionName is cleared", lambda s: not s.get("pinnedRevisionName"))
        self._event("RuntimePinReleased", self.second)
        self._show_isvc()

    def _tell_events(self) -> None:
        self._show_events("")

    # what a user does

    def _apply(self, file: str) -> None:
        self.teller.command(f"kubectl apply -f {self.manifests}/{file}")
        for obj in documents(MANIFESTS / file):
            meta, plural = obj["metadata"], PLURALS[obj["kind"]]
            self.kube.create(path_of(obj["apiVersion"], plural, meta.get("namespace", "")), obj)
            group = obj["apiVersion"].rpartition("/")[0]
            kind = obj["kind"].lower() + (f".{group}" if group else "")
            self.teller.output([f"{kind}/{meta['name']} created"])

    def _patch(self, patch: JsonObject) -> None:
        self.teller.command(f"kubectl -n {NAMESPACE} patch isvc {NAME} --type=merge -p '{json.dumps(patch)}'")
        self.kube.merge(ISVC, patch)
        self.teller.output([f"inferenceservice.ome.io/{NAME} patched"])

    def _edit_runtime(self, greeting: str) -> None:
        path = "/spec/engineConfig/runner/env/0/value"
        text = json.dumps([{"op": "replace", "path": path, "value": greeting}])
        self.teller.command(f"kubectl -n {NAMESPACE} patch servingruntime {NAME} --type=json -p '{text}'")
        self.kube.call("PATCH", RUNTIME, json.loads(text), "application/json-patch+json")
        self.teller.output([f"servingruntime.ome.io/{NAME} patched"])

    def _annotate(self, token: str) -> None:
        self.teller.command(f"kubectl -n {NAMESPACE} annotate isvc {NAME} {SYNC}={token} --overwrite")
        self.kube.merge(ISVC, {"metadata": {"annotations": {SYNC: token}}})
        self.teller.output([f"inferenceservice.ome.io/{NAME} annotated"])

    # what a user sees

    def _show_isvc(self) -> None:
        self.teller.command(f"kubectl -n {NAMESPACE} get isvc {NAME} -o wide")
        self.teller.output(aligned(rows(self.kube.table(ISVC), wide=True)))

    def _show_drift(self) -> None:
        expression = '{.status.conditions[?(@.type=="RuntimeDrifted")].message}'
        self.teller.command(f"kubectl -n {NAMESPACE} get isvc {NAME} -o jsonpath='{expression}'")
        self.teller.output([_condition(self._status()).get("message", "")])

    def _show_revisions(self) -> None:
        self.teller.command(f"kubectl -n {OME_NAMESPACE} get controllerrevisions -L ome.io/revision-hash")
        table = self.kube.table(REVISIONS, labelSelector=f"{RUNTIME_OF}={NAME}")
        if not table.get("rows"):
            self.teller.output([f"No resources found in {OME_NAMESPACE} namespace."])
            return
        self.teller.output(aligned(rows(table, labels=["ome.io/revision-hash"])))

    def _show_events(self, reason: str) -> None:
        selector = f"involvedObject.name={NAME}" + (f",reason={reason}" if reason else "")
        self.teller.command(f"kubectl -n {NAMESPACE} get events --field-selector {selector}")
        table = self.kube.table(EVENTS, fieldSelector=selector)
        # In the order of their writing: kubectl's --sort-by knows whole seconds only.
        table["rows"].sort(key=lambda row: int(row["object"]["metadata"]["resourceVersion"]))
        self.teller.output(aligned(rows(table)))

    # what is waited for

    def _status(self) -> JsonObject:
        status: JsonObject = self.kube.get(ISVC).get("status") or {}
        return status

    def _expect(self, what: str, holds: Callable[[JsonObject], bool]) -> JsonObject:
        def look() -> JsonObject | None:
            self._check_processes()
            status = self._status()
            return status if holds(status) else None

        return eventually(look, self.seconds, what, seen=lambda: json.dumps(self._status()))

    def _event(self, reason: str, names: str) -> None:
        def look() -> bool:
            self._check_processes()
            return any(event["reason"] == reason and names in event["message"] for event in self.kube.items(EVENTS))

        eventually(look, self.seconds, f"event {reason} naming {names}")

    def _same(self, status: JsonObject, pin: str) -> None:
        if status.get("pinnedRevisionName") != pin:
            raise NotYet(f"the pin should still be {pin}, but is {status.get('pinnedRevisionName')!r}")

    def _check_processes(self) -> None:
        for process in self.processes.failed():
            tail = "".join(f"\n  {line}" for line in process.lines()[-8:])
            raise StoryError(f"{self._step}: {process.name} ended with status {process.status}{tail}")


def _condition(status: JsonObject) -> JsonObject:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "RuntimeDrifted":
            found: JsonObject = condition
            return found
    return {}


def _drifted(status: JsonObject) -> str:
    """The reason of a RuntimeDrifted that is True, else empty."""
    condition = _condition(status)
    return str(condition.get("reason", "")) if condition.get("status") == "True" else ""
