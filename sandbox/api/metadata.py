"""Rules of ``metadata``: names, labels, what the server sets, what an update may not change."""

from __future__ import annotations

import random
import re

from sandbox.api.resources import Resource
from sandbox.api.status import bad_request, cause, invalid
from sandbox.jsontypes import JsonObject

SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
ANNOTATIONS_LIMIT = 256 * 1024

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
LABEL_NAMED = frozenset({"namespaces", "services"})
FREE_NAMED = frozenset(
    {"roles", "rolebindings", "clusterroles", "clusterrolebindings"}
)  # path segment names, colons allowed


def metadata_of(obj: JsonObject) -> JsonObject:
    """The metadata member, made when missing; 400 when it is not an object."""
    meta = obj.get("metadata")
    if meta is None:
        meta = obj["metadata"] = {}
    if not isinstance(meta, dict):
        raise bad_request("json: cannot unmarshal: metadata must be an object")
    for field in ("labels", "annotations"):
        values = meta.get(field)
        if values is None:
            meta.pop(field, None)
        elif not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise bad_request(f"json: cannot unmarshal into Go struct field ObjectMeta.metadata.{field} of type string")
    for field in ("name", "generateName", "namespace", "uid", "resourceVersion"):
        if meta.get(field) is not None and not isinstance(meta[field], str):
            raise bad_request(f"json: cannot unmarshal into Go struct field ObjectMeta.metadata.{field} of type string")
    for field in ("finalizers", "ownerReferences", "managedFields"):
        if meta.get(field) is not None and not isinstance(meta[field], list):
            raise bad_request(f"json: cannot unmarshal into Go struct field ObjectMeta.metadata.{field}")
    return meta


def generate_name(base: str, rand: random.Random) -> str:
    """``base``, cut to 58 characters, with five random characters."""
    return base[:58] + "".join(rand.choice(SUFFIX_ALPHABET) for _ in range(5))


def check_namespace(resource: Resource, meta: JsonObject, namespace: str) -> None:
    """The namespace of the path goes into the object; a different one in the object is refused."""
    if not resource.namespaced:
        meta.pop("namespace", None)
        return
    given = meta.get("namespace")
    if given and given != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    meta["namespace"] = namespace


def _name_causes(resource: Resource, name: str) -> list[JsonObject]:
    if resource.plural in FREE_NAMED:
        return []
    label = resource.plural in LABEL_NAMED and not resource.group
    limit, pattern, text = (63, _LABEL, _LABEL_TEXT) if label else (253, _SUBDOMAIN, _SUBDOMAIN_TEXT)
    causes = []
    if len(name) > limit:
        causes.append(_invalid("metadata.name", name, f"must be no more than {limit} bytes"))
    if not re.fullmatch(pattern, name):
        causes.append(_invalid("metadata.name", name, text))
    return causes


def _invalid(field: str, value: str, text: str) -> JsonObject:
    return cause(field, "FieldValueInvalid", f'Invalid value: "{value}": {text}')


def key_fault(key: str) -> str:
    """What is wrong with a label or annotation key; empty when nothing is."""
    prefix, slash, name = key.rpartition("/")
    if slash and not prefix:
        return "prefix part must be non-empty"
    if slash and (len(prefix) > 253 or not re.fullmatch(_SUBDOMAIN, prefix)):
        return "prefix part " + _SUBDOMAIN_TEXT
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    return "" if re.fullmatch(_QUALIFIED, name) else _QUALIFIED_TEXT


def value_fault(value: str) -> str:
    """What is wrong with a label value; empty when nothing is."""
    if len(value) > 63:
        return "must be no more than 63 bytes"
    return "" if not value or re.fullmatch(_QUALIFIED, value) else _VALUE_TEXT


def meta_causes(resource: Resource, meta: JsonObject) -> list[JsonObject]:
    """Everything that is wrong with names, labels, annotations, owners and finalizers."""
    name = meta.get("name")
    if not name:
        return [cause("metadata.name", "FieldValueRequired", "Required value: name or generateName is required")]
    causes = _name_causes(resource, name)
    for key, value in (meta.get("labels") or {}).items():
        if fault := key_fault(key):
            causes.append(_invalid("metadata.labels", key, fault))
        if fault := value_fault(value):
            causes.append(_invalid("metadata.labels", value, fault))
    size = 0
    for key, value in (meta.get("annotations") or {}).items():
        size += len(key.encode()) + len(value.encode())
        if fault := key_fault(key.lower()):
            causes.append(_invalid("metadata.annotations", key, fault))
    if size > ANNOTATIONS_LIMIT:
        text = f"Too long: may not be more than {ANNOTATIONS_LIMIT} bytes"
        causes.append(cause("metadata.annotations", "FieldValueTooLong", text))
    return causes + _owner_causes(meta) + _finalizer_causes(meta)


def _owner_causes(meta: JsonObject) -> list[JsonObject]:
    causes = []
    controllers = 0
    for owner in meta.get("ownerReferences") or ():
        if not isinstance(owner, dict):
            raise bad_request("json: cannot unmarshal into Go struct field ObjectMeta.metadata.ownerReferences")
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                text = 'Invalid value: "": ' + (
                    "version must not be empty" if field == "apiVersion" else "must not be empty"
                )
                causes.append(cause(f"metadata.ownerReferences.{field}", "FieldValueInvalid", text))
        controllers += bool(owner.get("controller"))
    if controllers > 1:
        text = "Invalid value: Only one reference can have Controller set to true"
        causes.append(cause("metadata.ownerReferences", "FieldValueInvalid", text))
    return causes


def _finalizer_causes(meta: JsonObject) -> list[JsonObject]:
    causes = []
    for name in meta.get("finalizers") or ():
        if not isinstance(name, str) or key_fault(name):
            causes.append(_invalid("metadata.finalizers", str(name), key_fault(str(name)) or "must be a string"))
    return causes


def check_update(resource: Resource, meta: JsonObject, old: JsonObject) -> list[JsonObject]:
    """Restores what an update may leave out and names what it may not change."""
    causes = []
    for field in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "uid", "selfLink"):
        if field in old:
            if meta.get(field) not in (None, old[field]) and field not in ("creationTimestamp", "selfLink"):
                text = f'Invalid value: "{meta[field]}": field is immutable'
                causes.append(cause(f"metadata.{field}", "FieldValueInvalid", text))
            meta[field] = old[field]
        else:
            meta.pop(field, None)
    if "generation" in old:
        meta["generation"] = old["generation"]
    else:
        meta.pop("generation", None)
    if old.get("deletionTimestamp"):
        added = [name for name in meta.get("finalizers") or () if name not in (old.get("finalizers") or ())]
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            text = (
                "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{listed}}}"
            )
            causes.append(cause("metadata.finalizers", "FieldValueForbidden", text))
    return causes


def refuse(resource: Resource, name: str, causes: list[JsonObject]) -> None:
    """Raises 422 when there are causes."""
    if causes:
        raise invalid(resource.group, resource.kind, name, causes)
