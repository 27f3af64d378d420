"""Get and list: selectors, pages with continue tokens, consistency by resourceVersion."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

import orjson

from sandbox.api import tables, versions
from sandbox.api.forms import Form, Wanted, partial
from sandbox.api.messages import Response, json_response
from sandbox.api.resources import Resource
from sandbox.api.routes import Route, revision
from sandbox.api.selectors import selection
from sandbox.api.status import TOKEN_EXPIRED, StatusError, bad_request, cause, expired, invalid, not_found
from sandbox.jsontypes import JsonObject
from sandbox.store import Entry, Expired, Store, TooNew

MATCHES = ("Exact", "NotOlderThan")


def read_one(store: Store, resource: Resource, route: Route, wanted: Wanted) -> Response:
    """A single object in the wanted form; 404 when it is not there."""
    entry = store.get(resource.storage, route.namespace, route.name)
    if entry is None:
        raise not_found(resource.group, resource.plural, route.name)
    if not wanted.form:
        return json_response(versions.encoded(resource, entry))
    return shaped(store, resource, versions.in_version(resource, entry.obj), wanted)


def shaped(
    store: Store, resource: Resource, obj: JsonObject, wanted: Wanted, status: int = 200, warnings: tuple[str, ...] = ()
) -> Response:
    """An object in the wanted form."""
    if wanted.form is Form.TABLE:
        meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        body = tables.table(resource, [obj], meta, wanted, store.clock.now())
    elif wanted.form:
        body = partial(obj, wanted.version)
    else:
        body = obj
    return json_response(body, status, warnings=warnings)


def read_list(store: Store, resource: Resource, route: Route, query: Mapping[str, str], wanted: Wanted) -> Response:
    """A collection, or a page of it."""
    namespace = route.namespace if resource.namespaced and route.namespace else None
    matches = selection(resource, query)
    page = _Page(store, query)
    entries = page.entries(resource, namespace)
    if matches is not None:
        entries = [entry for entry in entries if matches(entry.obj)]
    shown, meta = page.cut(entries, matches is not None)
    return _render(store, resource, shown, meta, wanted)


def _render(store: Store, resource: Resource, shown: list[Entry], meta: JsonObject, wanted: Wanted) -> Response:
    if wanted.form is Form.TABLE:
        objects = [versions.in_version(resource, entry.obj) for entry in shown]
        return json_response(tables.table(resource, objects, meta, wanted, store.clock.now()))
    if wanted.form:
        items = [partial(entry.obj, wanted.version) for entry in shown]
        kind, version = "PartialObjectMetadataList", f"meta.k8s.io/{wanted.version}"
        return json_response({"kind": kind, "apiVersion": version, "metadata": meta, "items": items})
    head = orjson.dumps({"kind": resource.list_name, "apiVersion": resource.api_version, "metadata": meta})
    body = head[:-1] + b',"items":[' + b",".join(versions.as_item(resource, entry) for entry in shown) + b"]}"
    return json_response(body)


class _Page:
    """The list parameters of one request."""

    def __init__(self, store: Store, query: Mapping[str, str]) -> None:
        self._store = store
        self.limit = _limit(query)
        self.after: tuple[str, str] | None = None
        self.at: int | None = None
        """The revision to show, None for the latest."""
        match = query.get("resourceVersionMatch", "")
        wanted = query.get("resourceVersion", "")
        token = query.get("continue", "")
        _check_match(match, wanted, token)
        if token:
            self.at, self.after = _open_token(token, wanted)
        elif wanted not in ("", "0"):
            self._demand(revision(wanted), match)

    def _demand(self, number: int, match: str) -> None:
        if number > self._store.revision:
            raise too_new(number, self._store.revision)
        if match == "Exact" or (not match and self.limit):
            self.at = number

    def entries(self, resource: Resource, namespace: str | None) -> list[Entry]:
        try:
            found = self._store.list(resource.storage, namespace, self.at)
        except Expired:
            if self.after is None:
                text = f"The resourceVersion for the provided list is too old: {self.at}"
                raise expired(text) from None
            raise self._expired_token() from None
        except TooNew:
            raise too_new(self.at or 0, self._store.revision) from None
        if self.after is not None:
            after = self.after
            found = [entry for entry in found if entry.key > after]
        return found

    def _expired_token(self) -> StatusError:
        error = expired(TOKEN_EXPIRED)
        fresh = _token(-1, self.after or ("", ""))
        error.list_meta = {"continue": fresh}
        return error

    def cut(self, entries: list[Entry], selected: bool) -> tuple[list[Entry], JsonObject]:
        """The entries of this page and the metadata of the list."""
        number = self.at if self.at is not None else self._store.revision
        meta: JsonObject = {"resourceVersion": str(number)}
        if not self.limit or len(entries) <= self.limit:
            return entries, meta
        shown = entries[: self.limit]
        meta["continue"] = _token(number, shown[-1].key)
        if not selected:
            meta["remainingItemCount"] = len(entries) - self.limit
        return shown, meta


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit") or "0"
    try:
        return max(int(text), 0)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _check_match(match: str, wanted: str, token: str) -> None:
    texts = []
    if match and match not in MATCHES:
        texts.append(f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan"')
    elif match and token:
        texts.append("Forbidden: resourceVersionMatch is forbidden when continue is provided")
    elif match and not wanted:
        texts.append("Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided")
    elif match == "Exact" and wanted == "0":
        texts.append('Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    if texts:
        causes = [cause("resourceVersionMatch", "FieldValueForbidden", text) for text in texts]
        raise invalid("meta.k8s.io", "ListOptions", "", causes)


def _token(number: int, after: tuple[str, str]) -> str:
    body = orjson.dumps({"v": "meta.k8s.io/v1", "rv": number, "start": list(after)})
    return base64.urlsafe_b64encode(body).decode().rstrip("=")


def _open_token(token: str, wanted: str) -> tuple[int | None, tuple[str, str]]:
    if wanted not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    try:
        body = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, name = body["start"]
        number = int(body["rv"])
    except (binascii.Error, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        raise bad_request("continue key is not valid: illegal base64 data or unknown form") from None
    return (None if number < 0 else number), (str(namespace), str(name))


def too_new(wanted: int, current: int) -> StatusError:
    """504: the resourceVersion asked for has not happened yet."""
    text = f"Too large resource version: {wanted}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return StatusError(504, "Timeout", text, {"causes": causes, "retryAfterSeconds": 1})


def bad_list_option(field: str, text: str) -> StatusError:
    """422 for list or watch parameters that do not go together."""
    return invalid("meta.k8s.io", "ListOptions", "", [cause(field, "FieldValueForbidden", f"Forbidden: {text}")])
