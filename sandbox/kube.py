"""A small, blocking client of the Kubernetes API: what a person does with kubectl, for the story and for tests."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlencode

from sandbox.jsontypes import JsonObject

T = TypeVar("T")
MERGE_PATCH = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class KubeFault(Exception):
    """The API server refused a request."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class NotYet(Exception):
    """What was waited for did not come true in time; the text says what was seen last."""


def path_of(api_version: str, plural: str, namespace: str = "", name: str = "") -> str:
    """The path of a resource or of one object of it."""
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{scope}/{plural}" + (f"/{name}" if name else "")


class Kube:
    """Requests to one API server, each with a time limit. Raises ``KubeFault``, and ``OSError`` when it is away."""

    def __init__(self, url: str, manager: str = "kubectl") -> None:
        self.url = url
        self.manager = manager

    def call(self, method: str, path: str, body: JsonObject | None = None, content_type: str = "application/json",
             accept: str = "application/json", query: dict[str, str] | None = None) -> JsonObject:
        """One request and its decoded answer."""
        asked = {**(query or {}), **({"fieldManager": self.manager} if method in ("POST", "PATCH", "PUT") else {})}
        url = f"{self.url}{path}" + (f"?{urlencode(asked)}" if asked else "")
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": accept, "Content-Type": content_type}
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                found: JsonObject = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            told = json.loads(error.read() or b"{}")
            raise KubeFault(error.code, told.get("reason", ""), told.get("message", str(error))) from None

    def get(self, path: str) -> JsonObject:
        """Reads an object or a list."""
        return self.call("GET", path)

    def find(self, path: str) -> JsonObject | None:
        """Reads an object; None when there is none."""
        try:
            return self.get(path)
        except KubeFault as fault:
            if fault.code == 404:
                return None
            raise

    def items(self, path: str, **query: str) -> list[JsonObject]:
        """The objects of a list."""
        found: list[JsonObject] = self.call("GET", path, query=query)["items"]
        return found

    def create(self, path: str, obj: JsonObject) -> JsonObject:
        """Creates an object."""
        return self.call("POST", path, obj)

    def merge(self, path: str, patch: JsonObject) -> JsonObject:
        """Applies a JSON merge patch."""
        return self.call("PATCH", path, patch, MERGE_PATCH)

    def delete(self, path: str) -> JsonObject:
        """Deletes an object."""
        return self.call("DELETE", path)

    def table(self, path: str, **query: str) -> JsonObject:
        """A list or an object as the server's table, which is what kubectl prints."""
        return self.call("GET", path, accept=TABLE, query=query)


def eventually(look: Callable[[], T | None], seconds: float, what: str, every: float = 0.03,
               seen: Callable[[], object] | None = None) -> T:
    """Looks until there is something (not None, not False) and answers it. Raises ``NotYet`` after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        if time.monotonic() >= deadline:
            last = f"; last seen: {seen()}" if seen else ""
            raise NotYet(f"{what}: not within {seconds:g} s{last}")
        time.sleep(every)
