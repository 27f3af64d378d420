"""Validating admission webhooks: which of them a write concerns, what they are asked, what their answers mean."""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Generator
from dataclasses import dataclass
from urllib.parse import quote

import orjson

from sandbox.api.resources import Resource
from sandbox.api.selectors import match_selector
from sandbox.api.status import StatusError, internal
from sandbox.jsontypes import JsonObject
from sandbox.store import Store

CONFIGURATIONS = "validatingwebhookconfigurations.admissionregistration.k8s.io"
EXEMPT_GROUP = "admissionregistration.k8s.io"


@dataclass(frozen=True)
class WebhookCall:
    """One HTTPS POST that the server needs made. ``ca`` is PEM text, empty for the system's roots."""

    url: str
    ca: str
    body: bytes
    timeout_seconds: float
    """The whole call, connecting included."""


WebhookAnswer = bytes | Exception


@dataclass
class Attempt:
    """A write on its way to the store."""

    operation: str
    resource: Resource
    subresource: str
    obj: JsonObject | None
    old: JsonObject | None
    dry_run: bool
    user: JsonObject


class Admission:
    """Asks the webhooks configured in the store itself."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def review(self, attempt: Attempt) -> Generator[WebhookCall, WebhookAnswer, list[str]]:
        """Asks every webhook concerned; answers their warnings, raises for the first refusal or failure that counts."""
        warnings: list[str] = []
        if self._store.count(CONFIGURATIONS) == 0 or attempt.resource.group == EXEMPT_GROUP:
            return warnings
        for entry in self._store.list(CONFIGURATIONS):
            for webhook in entry.obj.get("webhooks") or ():
                if self._concerns(webhook, attempt):
                    warnings += yield from self._ask(webhook, attempt)
        return warnings

    def _concerns(self, webhook: JsonObject, attempt: Attempt) -> bool:
        if not any(_rule_matches(rule, attempt) for rule in webhook.get("rules") or ()):
            return False
        subject = attempt.obj or attempt.old or {}
        meta = subject.get("metadata") or {}
        if attempt.resource.namespaced or attempt.resource.storage == "namespaces":
            name = meta.get("namespace") or meta.get("name", "")
            namespace = self._store.get("namespaces", "", name)
            labels = (namespace.obj["metadata"] if namespace else meta).get("labels") or {}
            if not match_selector(webhook.get("namespaceSelector"))(labels):
                return False
        chosen = match_selector(webhook.get("objectSelector"))
        return any(chosen((obj.get("metadata") or {}).get("labels") or {}) for obj in (attempt.obj, attempt.old) if obj)

    def _ask(self, webhook: JsonObject, attempt: Attempt) -> Generator[WebhookCall, WebhookAnswer, list[str]]:
        name = webhook.get("name", "")
        if attempt.dry_run and webhook.get("sideEffects") not in ("None", "NoneOnDryRun"):
            text = f"admission webhook {orjson.dumps(name).decode()} does not support dry run"
            raise StatusError(400, "BadRequest", text)
        uid = self._store.new_uid()
        try:
            call = WebhookCall(
                self._url(webhook.get("clientConfig") or {}), _ca(webhook), orjson.dumps(review_body(attempt, uid)),
                float(webhook.get("timeoutSeconds") or 10),
            )  # fmt: skip
            answer = yield call
            if isinstance(answer, Exception):
                raise answer
            response = _response(answer, uid)
        except Exception as error:  # whatever goes wrong with a webhook is for its failure policy
            if webhook.get("failurePolicy") == "Ignore":
                return []
            raise internal(f'failed calling webhook "{name}": failed to call webhook: {error}') from None
        warnings = [str(text) for text in response.get("warnings") or ()]
        if not response.get("allowed"):
            raise _refusal(name, response.get("status") or {})
        return warnings

    def _url(self, client: JsonObject) -> str:
        if client.get("url"):
            return str(client["url"])
        service = client.get("service") or {}
        namespace, name = service.get("namespace", ""), service.get("name", "")
        path = quote((service.get("path") or "/").lstrip("/"))
        return f"https://{name}.{namespace}.svc:{service.get('port') or 443}/{path}"


def _ca(webhook: JsonObject) -> str:
    bundle = (webhook.get("clientConfig") or {}).get("caBundle") or ""
    try:
        text = base64.b64decode(bundle, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ssl.SSLError(f"unable to load root certificates: {error}") from None
    return text


def _rule_matches(rule: JsonObject, attempt: Attempt) -> bool:
    resource = attempt.resource
    path = f"{resource.plural}/{attempt.subresource}" if attempt.subresource else resource.plural
    wanted = {path, "*/*", f"{resource.plural}/*"}
    wanted.add(f"*/{attempt.subresource}" if attempt.subresource else "*")
    if attempt.subresource == "":
        wanted.discard(f"{resource.plural}/*")
        wanted |= {f"{resource.plural}/*"}
    scope = rule.get("scope") or "*"
    return (
        bool({attempt.operation, "*"} & set(rule.get("operations") or ()))
        and bool({resource.group, "*"} & set(rule.get("apiGroups") or ()))
        and bool({resource.version, "*"} & set(rule.get("apiVersions") or ()))
        and bool(wanted & set(rule.get("resources") or ()))
        and scope in ("*", "Namespaced" if resource.namespaced else "Cluster")
    )


def review_body(attempt: Attempt, uid: str) -> JsonObject:
    """The ``AdmissionReview`` (admission.k8s.io/v1) that a webhook is sent."""
    resource = attempt.resource
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    names = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    meta = (attempt.obj or attempt.old or {}).get("metadata") or {}
    request: JsonObject = {
        "uid": uid, "kind": kind, "resource": names, "requestKind": kind, "requestResource": names,
        "name": meta.get("name", ""), "operation": attempt.operation, "userInfo": attempt.user,
        "object": attempt.obj, "oldObject": attempt.old, "dryRun": attempt.dry_run, "options": None,
    }  # fmt: skip
    if attempt.subresource:
        request["subResource"] = request["requestSubResource"] = attempt.subresource
    if meta.get("namespace"):
        request["namespace"] = meta["namespace"]
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def _response(answer: bytes, uid: str) -> JsonObject:
    try:
        review = orjson.loads(answer)
        response = review["response"]
        echoed = response["uid"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview: {error}") from None
    if echoed != uid:
        raise ValueError(f"expected response.uid={uid!r}, got {echoed!r}")
    return dict(response)


def _refusal(name: str, status: JsonObject) -> StatusError:
    text = status.get("message") or status.get("reason")
    prefix = f'admission webhook "{name}" denied the request'
    message = f"{prefix}: {text}" if text else f"{prefix} without explanation"
    code = status.get("code") or 400
    return StatusError(
        int(code) if int(code) >= 400 else 400, status.get("reason") or "", message, status.get("details")
    )
