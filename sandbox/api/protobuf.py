"""Bodies in Kubernetes' protobuf form, for the few kinds that kubectl sends that way.

The envelope is ``k8s\\0`` and a ``runtime.Unknown`` message (type, raw object). Messages are described by their field
numbers; a field that is not described is an error, so that nothing is lost silently.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from sandbox.api.status import bad_request
from sandbox.jsontypes import JsonObject, JsonValue
from services.kit.times import timestamp

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"


@dataclass(frozen=True)
class F:
    """A field: its JSON name, its type (a scalar or the name of a message) and how it repeats."""

    name: str
    type: str = "string"
    many: bool = False
    map: bool = False


def _fields(text: str) -> dict[int, F]:
    """``1 name, 2 labels{string}, 3 owners[OwnerReference]``: number, name and, after the name, the type."""
    found = {}
    for part in text.split(","):
        number, _, rest = part.strip().partition(" ")
        name, bracket, kind = rest.partition("[") if "[" in rest else rest.partition("{")
        if bracket:
            found[int(number)] = F(name, kind[:-1], many=bracket == "[", map=bracket == "{")
        else:
            name, _, kind = rest.partition(":")
            found[int(number)] = F(name, kind or "string")
    return found


_OBJECT = "1 metadata:ObjectMeta, 2 spec:{spec}, 3 status:{status}"
_TEXTS: dict[str, str] = {
    "ObjectMeta": "1 name, 2 generateName, 3 namespace, 4 selfLink, 5 uid, 6 resourceVersion, 7 generation:int, "
    "8 creationTimestamp:Time, 9 deletionTimestamp:Time, 10 deletionGracePeriodSeconds:int, 11 labels{string}, "
    "12 annotations{string}, 13 ownerReferences[OwnerReference], 14 finalizers[string]",
    "OwnerReference": "1 kind, 3 name, 4 uid, 5 apiVersion, 6 controller:bool, 7 blockOwnerDeletion:bool",
    "ConfigMap": "1 metadata:ObjectMeta, 2 data{string}, 3 binaryData{bytes}, 4 immutable:bool",
    "Secret": "1 metadata:ObjectMeta, 2 data{bytes}, 3 type, 4 stringData{string}, 5 immutable:bool",
    "Namespace": _OBJECT.format(spec="NamespaceSpec", status="NamespaceStatus"),
    "NamespaceSpec": "1 finalizers[string]",
    "NamespaceStatus": "1 phase",
    "ServiceAccount": "1 metadata:ObjectMeta, 4 automountServiceAccountToken:bool",
    "SelfSubjectAccessReview": _OBJECT.format(spec="AccessSpec", status="AccessStatus"),
    "SubjectAccessReview": _OBJECT.format(spec="SubjectSpec", status="AccessStatus"),
    "LocalSubjectAccessReview": _OBJECT.format(spec="SubjectSpec", status="AccessStatus"),
    "AccessSpec": "1 resourceAttributes:ResourceAttributes, 2 nonResourceAttributes:NonResourceAttributes",
    "SubjectSpec": "1 resourceAttributes:ResourceAttributes, 2 nonResourceAttributes:NonResourceAttributes, 3 user, "
    "4 groups[string], 6 uid",
    "AccessStatus": "1 allowed:bool, 2 reason, 3 evaluationError, 4 denied:bool",
    "ResourceAttributes": "1 namespace, 2 verb, 3 group, 4 version, 5 resource, 6 subresource, 7 name",
    "NonResourceAttributes": "1 path, 2 verb",
    "SelfSubjectRulesReview": _OBJECT.format(spec="RulesSpec", status="RulesStatus"),
    "RulesSpec": "1 namespace",
    "RulesStatus": "3 incomplete:bool, 4 evaluationError",
    "SelfSubjectReview": "1 metadata:ObjectMeta, 2 status:ReviewStatus",
    "ReviewStatus": "1 userInfo:UserInfo",
    "UserInfo": "1 username, 2 uid, 3 groups[string]",
    "TokenReview": _OBJECT.format(spec="TokenSpec", status="TokenStatus"),
    "TokenSpec": "1 token, 2 audiences[string]",
    "TokenStatus": "1 authenticated:bool, 2 user:UserInfo, 3 error, 4 audiences[string]",
    "DeleteOptions": "1 gracePeriodSeconds:int, 2 preconditions:Preconditions, 3 orphanDependents:bool, "
    "4 propagationPolicy, 5 dryRun[string]",
    "Preconditions": "1 uid, 2 resourceVersion",
    "Scale": _OBJECT.format(spec="ScaleSpec", status="ScaleStatus"),
    "ScaleSpec": "1 replicas:int",
    "ScaleStatus": "1 replicas:int, 2 selector{string}, 3 targetSelector",
    "Lease": "1 metadata:ObjectMeta, 2 spec:LeaseSpec",
    "LeaseSpec": "1 holderIdentity, 2 leaseDurationSeconds:int, 3 acquireTime:MicroTime, 4 renewTime:MicroTime, "
    "5 leaseTransitions:int",
    "Deployment": _OBJECT.format(spec="DeploymentSpec", status="DeploymentStatus"),
    "DeploymentSpec": "1 replicas:int, 2 selector:LabelSelector, 3 template:PodTemplateSpec, 4 strategy:Strategy, "
    "5 minReadySeconds:int, 6 revisionHistoryLimit:int, 7 paused:bool, 9 progressDeadlineSeconds:int",
    "DeploymentStatus": "1 observedGeneration:int, 2 replicas:int, 3 updatedReplicas:int, 4 availableReplicas:int, "
    "5 unavailableReplicas:int, 7 readyReplicas:int, 8 collisionCount:int",
    "Strategy": "1 type",
    "LabelSelector": "1 matchLabels{string}, 2 matchExpressions[Requirement]",
    "Requirement": "1 key, 2 operator, 3 values[string]",
    "PodTemplateSpec": "1 metadata:ObjectMeta, 2 spec:PodSpec",
    "PodSpec": "2 containers[Container], 3 restartPolicy, 4 terminationGracePeriodSeconds:int, "
    "5 activeDeadlineSeconds:int, 6 dnsPolicy, 7 nodeSelector{string}, 8 serviceAccountName, 9 serviceAccount, "
    "10 nodeName, 11 hostNetwork:bool, 12 hostPID:bool, 13 hostIPC:bool, 14 securityContext:Empty, 16 hostname, "
    "17 subdomain, 19 schedulerName, 24 priorityClassName",
    "Container": "1 name, 2 image, 3 command[string], 4 args[string], 5 workingDir, 6 ports[ContainerPort], "
    "7 env[EnvVar], 8 resources:Empty, 13 terminationMessagePath, 14 imagePullPolicy, 16 stdin:bool, "
    "17 stdinOnce:bool, 18 tty:bool, 20 terminationMessagePolicy",
    "ContainerPort": "1 name, 2 hostPort:int, 3 containerPort:int, 4 protocol, 5 hostIP",
    "EnvVar": "1 name, 2 value",
    "Empty": "",
    "Time": "1 seconds:int, 2 nanos:int",
    "MicroTime": "1 seconds:int, 2 nanos:int",
}
_MESSAGES = {name: _fields(text) if text else {} for name, text in _TEXTS.items()}


def decode(data: bytes) -> JsonObject:
    """The object in a protobuf body; 400 for a malformed one or a kind or field that is not described here."""
    if not data.startswith(MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        envelope = {number: value for number, _, value in _wire(data[len(MAGIC) :])}
        names = {number: _text(value) for number, _, value in _wire(_bytes(envelope.get(1, b"")))}
        api_version, kind = names.get(1, ""), names.get(2, "")
        if kind not in _MESSAGES:
            raise bad_request(
                f"protobuf bodies of {api_version}, Kind={kind} are not understood; send application/json"
            )
        return {"apiVersion": api_version, "kind": kind, **_message(kind, _bytes(envelope.get(2, b"")))}
    except (IndexError, ValueError) as error:
        raise bad_request(f"proto: {error}") from None


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("wrong wire type")
    return value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode()


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7
        if shift > 63:
            raise ValueError("integer overflow")


def _wire(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Field number, wire type and value of everything in a message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield number, kind, value
        elif kind == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("unexpected EOF")
            yield number, kind, data[at : at + size]
            at += size
        else:
            raise ValueError(f"unexpected wire type {kind}")


def _message(name: str, data: bytes) -> JsonObject:
    described = _MESSAGES[name]
    result: JsonObject = {}
    for number, _, value in _wire(data):
        field = described.get(number)
        if field is None:
            if name == "Empty" or not value:
                continue
            raise ValueError(f"field {number} of {name} is not understood; send application/json")
        if field.map:
            pair = {key: item for key, _, item in _wire(_bytes(value))}
            result.setdefault(field.name, {})[_text(pair.get(1, b""))] = _value(field.type, pair.get(2, b""))
            continue
        item = _value(field.type, value)
        if field.many:
            result.setdefault(field.name, []).append(item)
        elif item not in ("", None, {}) or field.type == "PodSpec":
            result[field.name] = item
    return {key: item for key, item in result.items() if (item is not False and item != 0) or key == "replicas"}


def _value(kind: str, value: int | bytes) -> JsonValue:
    match kind:
        case "string":
            return _text(value)
        case "bytes":
            return base64.b64encode(_bytes(value)).decode()
        case "bool":
            return bool(value)
        case "int":
            number = int(value) if isinstance(value, int) else 0
            return number - (1 << 64) if number >> 63 else number
        case "Time" | "MicroTime":
            parts = _message(kind, _bytes(value))
            return timestamp(datetime.fromtimestamp(parts["seconds"], UTC)) if parts.get("seconds") else None
    return _message(kind, _bytes(value))
