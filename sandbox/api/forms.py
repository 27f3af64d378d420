"""In which form a client wants objects: as they are, as a Table, or as metadata only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sandbox.api.messages import JSON, Request
from sandbox.api.status import not_acceptable
from sandbox.jsontypes import JsonObject

META_V1 = "meta.k8s.io/v1"


class Form(StrEnum):
    """The representations that can be asked for with ``as=``."""

    OBJECT = ""
    TABLE = "Table"
    PARTIAL = "PartialObjectMetadata"
    PARTIAL_LIST = "PartialObjectMetadataList"


@dataclass(frozen=True)
class Wanted:
    """The negotiated form; ``version`` is that of meta.k8s.io, ``include`` what a Table's rows carry."""

    form: Form = Form.OBJECT
    version: str = "v1"
    include: str = "Metadata"

    @property
    def key(self) -> str:
        """A name for caches of encodings."""
        return f"{self.form}/{self.version}/{self.include}" if self.form else ""

    @property
    def content_type(self) -> str:
        """The media type of an answer in this form."""
        return JSON


def _accepted(header: str) -> list[tuple[str, dict[str, str]]]:
    choices = []
    for index, part in enumerate(header.split(",")):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        values = dict(item.split("=", 1) for item in parameters if "=" in item)
        choices.append((-_quality(values.get("q", "1")), index, media.lower(), values))
    choices.sort(key=lambda choice: choice[:2])
    return [(media, values) for _, _, media, values in choices]


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


def negotiate(request: Request, single: bool = False) -> Wanted:
    """The first acceptable form of the Accept header that can be made; 406 when there is none (protobuf alone)."""
    header = request.header("accept")
    if not header.strip():
        return Wanted()
    for media, values in _accepted(header):
        if media not in (JSON, "application/*", "*/*"):
            continue
        kind = values.get("as", "")
        if not kind:
            return Wanted()
        if values.get("g") != "meta.k8s.io" or values.get("v") not in ("v1", "v1beta1"):
            continue
        if kind in (Form.TABLE, Form.PARTIAL) or (kind == Form.PARTIAL_LIST and not single):
            include = request.query.get("includeObject") or "Metadata"
            return Wanted(Form(kind), values["v"], include)
    raise not_acceptable([JSON, "application/yaml", "application/vnd.kubernetes.protobuf"])


def partial(obj: JsonObject, version: str = "v1") -> JsonObject:
    """``PartialObjectMetadata`` of an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj["metadata"],
    }
