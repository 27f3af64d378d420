from sandbox.api.handler import ApiServer
from sandbox.api.messages import Request, Response
from sandbox.clock import VirtualClock
from sandbox.store import Store


def test_create_and_read() -> None:
    api = ApiServer(Store(VirtualClock()), seed=1)
    made = api.handle(Request.of("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}, "data": {"x": "1"}}))
    assert isinstance(made, Response)
    print(made.json())
    assert made.status == 201
    got = api.handle(Request.of("GET", "/api/v1/namespaces/default/configmaps/a"))
    assert isinstance(got, Response) and got.json() == made.json()
