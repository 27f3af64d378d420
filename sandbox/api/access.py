"""Who a caller is and what it may do: static tokens, token reviews and access reviews."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox.api import bodies
from sandbox.api.messages import Request, Response, json_response
from sandbox.api.routes import Route
from sandbox.api.status import StatusError, method_not_allowed, unauthorized
from sandbox.jsontypes import JsonObject

if TYPE_CHECKING:
    from sandbox.api.handler import ApiServer

ADMIN_GROUP = "system:masters"


@dataclass(frozen=True)
class Attributes:
    """One action, as authorisers see it."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


@dataclass(frozen=True)
class User:
    """A caller."""

    name: str
    uid: str = ""
    groups: Sequence[str] = ()

    def info(self) -> JsonObject:
        """``UserInfo`` of the authentication API."""
        info: JsonObject = {"username": self.name, "groups": [*self.groups, "system:authenticated"]}
        if self.uid:
            info["uid"] = self.uid
        return info


Authorizer = Callable[[JsonObject, Attributes], bool]


def admins_only(user: JsonObject, attributes: Attributes) -> bool:
    """Lets the group ``system:masters`` do everything and everybody else nothing."""
    return ADMIN_GROUP in (user.get("groups") or ())


@dataclass
class Users:
    """Static bearer tokens and the rule of what their holders may do."""

    tokens: Mapping[str, User]
    authorizer: Authorizer = field(default=admins_only)

    def find(self, token: str) -> JsonObject | None:
        """The holder of a token as ``UserInfo``."""
        user = self.tokens.get(token)
        return user.info() if user else None

    def authenticate(self, header: str) -> JsonObject:
        """The caller of a request by its Authorization header; 401 without a valid token."""
        scheme, _, token = header.partition(" ")
        user = self.find(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise unauthorized()
        return user


VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


def attributes_of(route: Route, request: Request) -> Attributes:
    """The action that a request stands for."""
    if request.method in ("GET", "HEAD"):
        verb = "get" if route.name else "list"
        verb = "watch" if request.flag("watch") else verb
    elif request.method == "DELETE":
        verb = "delete" if route.name else "deletecollection"
    else:
        verb = VERBS.get(request.method, request.method.lower())
    return Attributes(verb, route.group, route.plural, route.subresource, route.namespace, route.name)


def authorize(users: Users | None, route: Route, request: Request, user: JsonObject) -> None:
    """403 when the caller may not do what the request asks."""
    if users is None or route.plural.startswith("self"):
        return
    asked = attributes_of(route, request)
    if users.authorizer(user, asked):
        return
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    kind = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    subject = f'{kind} "{asked.name}" is forbidden' if asked.name else f"{kind} is forbidden"
    where = f' in the namespace "{asked.namespace}"' if asked.namespace else " at the cluster scope"
    text = (
        f'{subject}: User "{user["username"]}" cannot {asked.verb} resource "{resource}" in API group '
        f'"{asked.group}"{where}'
    )
    details = {
        key: value for key, value in (("name", asked.name), ("group", asked.group), ("kind", asked.resource)) if value
    }
    raise StatusError(403, "Forbidden", text, details)


REVIEWS = frozenset(
    {
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authentication.k8s.io", "selfsubjectreviews"),
    }
)


def review_access(server: ApiServer, route: Route, request: Request, user: JsonObject) -> Response | None:
    """Answers the review resources, which are never stored; None for every other path."""
    authorize(server.users, route, request, user)
    if (route.group, route.plural) not in REVIEWS or route.version != "v1":
        return None
    if request.method != "POST" or route.name:
        raise method_not_allowed()
    body = bodies.read_object(request, route.plural)
    body.setdefault("metadata", {})
    body["metadata"].setdefault("creationTimestamp", None)
    spec = body.get("spec") or {}
    match route.plural:
        case "tokenreviews":
            body["status"] = _token_status(server.users, spec.get("token", ""))
        case "selfsubjectreviews":
            body["status"] = {"userInfo": user}
        case "selfsubjectrulesreviews":
            body["status"] = _rules(server.users, user)
        case "selfsubjectaccessreviews":
            body["status"] = _access(server.users, user, spec)
        case _:
            subject = {"username": spec.get("user", ""), "groups": spec.get("groups") or [], "uid": spec.get("uid", "")}
            body["status"] = _access(server.users, subject, spec)
    return json_response(body, 201)


def _token_status(users: Users | None, token: str) -> JsonObject:
    user = users.find(token) if users else None
    if user is None:
        return {"user": {}, "error": "[invalid bearer token, unknown token]"}
    return {"authenticated": True, "user": user, "audiences": ["https://kubernetes.default.svc.cluster.local"]}


def _access(users: Users | None, user: JsonObject, spec: JsonObject) -> JsonObject:
    asked = spec.get("resourceAttributes") or {}
    paths = spec.get("nonResourceAttributes") or {}
    attributes = Attributes(
        asked.get("verb") or paths.get("verb") or "", asked.get("group") or "", asked.get("resource") or "",
        asked.get("subresource") or "", asked.get("namespace") or "", asked.get("name") or "", paths.get("path") or "",
    )  # fmt: skip
    allowed = users is None or users.authorizer(user, attributes)
    return {"allowed": allowed} if allowed else {"allowed": False, "reason": ""}


def _rules(users: Users | None, user: JsonObject) -> JsonObject:
    everything = users is None or users.authorizer(user, Attributes("*", "*", "*"))
    rules = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}] if everything else []
    return {
        "resourceRules": rules,
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }
