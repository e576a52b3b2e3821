"""An API server that the contract is tested on."""

from dataclasses import dataclass

from pykubelet.apiclient import ApiClient
from pykubelet.testing.fake_api import FakeApi


@dataclass
class Server:
    """An API server and a client with an administrator's rights."""

    client: ApiClient
    fake: FakeApi | None
    requests: list[str]
    """Methods of the client's requests."""
