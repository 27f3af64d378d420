"""The digest vectors of pinning specification 2, over the wire and from the golden corpus, which only grows."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from ome.pinning.v1 import pinning_pb2, pinning_pb2_grpc
from services.kit import canonical
from services.kit.channel import connect
from services.kit.server import RpcServer
from services.kit.settings import ServiceSettings
from services.pinning.service import register

CORPUS = json.loads((Path(__file__).parent / "corpus" / "c14n-v1.json").read_text("utf-8"))
EXAMPLE = '{"engineConfig":{"runner":{"image":"example:%s","name":"ome-container"}}}'
COLLIDING = '{"engineConfig":{"runner":{"args":["--mem-frac=%s"],"image":"img:v1","name":"ome-container"}}}'
VECTORS = [
    ("{}", "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", "empty"),
    (EXAMPLE % "v1", "dfbf7416d5aaed6355baf57aad044c6eb152f424618794ad58ab67fada99be46", "a runtime"),
    (EXAMPLE % "v2", "c956df99b315c6e21405216f0821b66466f3d12ec4aa66c81d0abfdbd0cd8ac5", "another image"),
    ('{"b":[null,{"c":null}],"a":null}', "4b18005d12af9c43ca6f446faf523d6e453c73ffe996b73d62f511be5654b984", "nulls"),
    ('{"b":[null,{}]}', "4b18005d12af9c43ca6f446faf523d6e453c73ffe996b73d62f511be5654b984", "nulls left out"),
    (
        '{"n":[1,1.0,1e3,0.00001,-0,-0.0,0.1,1e21,1e-7,9007199254740991]}',
        "1378685d2a9e17a1d013e8d762f1867f405fdaa560b7d55658ab25caef30d0f8",
        "numbers",
    ),
    (
        '{"\\ud83d\\ude00":"<a&b>","\\uffee":"\\u00e9\\u0001\\n\\/"}',
        "674c9297b7af2a07d6361d80e7a8537d3b1c67b1ba1c88bc54cfdec8e2480210",
        "members sort by UTF-16 code units",
    ),
    (COLLIDING % "0.032849", "ce6e78ea26740240f905148c808e695647e8df59d89002530e950ccc169d1b71", "collision, left"),
    (COLLIDING % "0.024986", "ce6e78eaad5d54b43f160f9b3c1fbe72b1fcaa8ca23e1b7eabaf592c8fef4511", "collision, right"),
]


@pytest.fixture
async def channel() -> AsyncIterator[grpc.aio.Channel]:
    server = RpcServer(ServiceSettings.model_validate({"listen": "127.0.0.1:0"}), register)
    await server.start()
    open_channel = connect(server.address)
    try:
        yield open_channel
    finally:
        await open_channel.close()
        await server.stop()


@pytest.mark.parametrize(("text", "digest", "reason"), VECTORS, ids=[reason for _, _, reason in VECTORS])
async def test_vectors_come_back_over_the_wire(channel: grpc.aio.Channel, text: str, digest: str, reason: str) -> None:
    stub = pinning_pb2_grpc.PinningServiceStub(channel)
    answer = await stub.HashRuntime(pinning_pb2.HashRuntimeRequest(spec=text.encode()), timeout=5)
    assert (answer.digest, answer.short, answer.algorithm) == (digest, digest[:8], "c14n-v1"), reason
    assert canonical.digest(answer.canonical) == digest


async def test_the_first_candidate_is_named_after_its_source(channel: grpc.aio.Channel) -> None:
    stub = pinning_pb2_grpc.PinningServiceStub(channel)
    source = pinning_pb2.Source(kind=pinning_pb2.RUNTIME_KIND_SERVING_RUNTIME, namespace="team", name="echo")
    request = pinning_pb2.HashRuntimeRequest(spec=(EXAMPLE % "v1").encode(), source=source)
    assert (await stub.HashRuntime(request, timeout=5)).candidate == "r-team-echo-dfbf7416"


@pytest.mark.parametrize("entry", CORPUS, ids=[entry["reason"] for entry in CORPUS])
def test_the_corpus_never_changes(entry: dict[str, str]) -> None:
    data = canonical.canonical(canonical.decode(entry["document"].encode()))
    assert data == entry["canonical"].encode()
    assert canonical.digest(data) == entry["digest"]


def test_the_corpus_is_large_enough() -> None:
    assert len(CORPUS) >= 30
