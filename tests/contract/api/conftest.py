"""Fixtures: the client against the fake API server, and against the real one if it is installed."""

from collections.abc import AsyncIterator, Iterator

import pytest

from pykubelet.apiclient import ApiClient, load_kubeconfig
from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import NotFound
from pykubelet.testing.envtest import ADMIN, EnvTest, find_assets
from pykubelet.testing.fake_api import FakeApi
from pykubelet.testing.isolation import Isolation
from tests.contract.api.server import Server


@pytest.fixture(scope="session")
def real_server(isolation: Isolation) -> Iterator[EnvTest]:
    """The session's real API server; the leftover server of a killed session is stopped by the next session."""
    try:
        find_assets()
    except NotFound as error:
        pytest.skip(str(error))
    server = EnvTest(isolation.home / "contract")
    try:
        server.start()
        yield server
    finally:
        server.destroy()


@pytest.fixture(params=["fake", "real"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    """The fake and the real API server, one after the other."""
    requests: list[str] = []

    def note(method: str, _host: str, _code: str, _seconds: float) -> None:
        requests.append(method)

    if request.param == "fake":
        async with FakeApi() as fake:
            client = ApiClient(fake.config, SystemClock(), observe=note)
            yield Server(client, fake, requests)
            await client.close()
        return
    real: EnvTest = request.getfixturevalue("real_server")
    client = ApiClient(load_kubeconfig(real.kubeconfig(ADMIN)), SystemClock(), observe=note)
    yield Server(client, None, requests)
    await client.close()
