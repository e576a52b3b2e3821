"""Tokens for image pulls: requested when a pod's image is pulled, and not kept fresh after that."""

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from pykubelet.apiclient import ApiClient
from pykubelet.base.errors import Transient
from pykubelet.kubelet.desired.objects import tokens as module
from pykubelet.kubelet.desired.objects.tokens import ServiceAccountTokens
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.models.core_v1 import Pod, PodSpec
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.testing.clock import VirtualClock

LIFE = 3600


@dataclass
class Kit:
    """An API server whose tokens live for an hour."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    requests: int = 0
    renewed: list[PodUID] = field(default_factory=list)
    broken: bool = False

    def __post_init__(self) -> None:
        self.tokens = ServiceAccountTokens(
            client=cast(ApiClient, self), clock=self.clock, renewed=self.renewed.append, rand=lambda: 0.0
        )

    async def create(self, target: object, request: object) -> SimpleNamespace:
        self.requests += 1
        number = self.requests
        await asyncio.sleep(0)
        if self.broken:
            raise Transient("no API server")
        return SimpleNamespace(status=SimpleNamespace(token=f"jwt-{number}", expiration_timestamp=None))

    async def pull(self, uid: str = "u1", audience: str = "registry") -> str:
        return await self.tokens.image_pull_token(pod(uid), audience)


def pod(uid: str) -> Pod:
    return Pod(metadata=ObjectMeta(name="p", namespace="n", uid=uid), spec=PodSpec(service_account_name="robot"))


async def test_token_of_one_pull_is_never_renewed_and_touches_no_pod() -> None:
    kit = Kit()
    assert await kit.pull() == "jwt-1"
    running = asyncio.create_task(kit.tokens.run())
    await kit.clock.advance(24 * 3600)
    running.cancel()
    assert (kit.requests, kit.renewed) == (1, [])
    assert await kit.pull() == "jwt-2"


async def test_token_is_requested_again_by_a_pull_after_four_fifths_of_its_life() -> None:
    kit = Kit()
    found = []
    for seconds in (0, 0.79 * LIFE, 0.02 * LIFE):
        await kit.clock.advance(seconds)
        found.append(await kit.pull())
    assert found == ["jwt-1", "jwt-1", "jwt-2"]


async def test_token_that_cannot_be_requested_again_is_used_until_it_expires() -> None:
    kit = Kit()
    await kit.pull()
    kit.broken = True
    await kit.clock.advance(0.9 * LIFE)
    assert await kit.pull() == "jwt-1"
    await kit.clock.advance(0.2 * LIFE)
    with pytest.raises(Transient, match="no API server"):
        await kit.pull()


async def test_pulls_at_the_same_time_share_one_request() -> None:
    kit = Kit()
    assert set(await asyncio.gather(*(kit.pull() for _ in range(5)))) == {"jwt-1"}
    assert kit.requests == 1


async def test_tokens_of_a_removed_pod_are_dropped() -> None:
    kit = Kit()
    await kit.pull()
    await kit.pull("u2")
    kit.tokens.release(PodUID("u1"))
    assert await kit.pull("u2") == "jwt-2"
    assert await kit.pull("u1") == "jwt-3"


async def test_number_of_tokens_is_bounded_and_expired_ones_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_PULL_TOKENS", 2)
    kit = Kit()
    await kit.pull(audience="a")
    await kit.pull(audience="b")
    await kit.clock.advance(0.9 * LIFE)
    await kit.pull(audience="a")
    await kit.pull(audience="c")
    before = kit.requests
    await kit.pull(audience="a")
    await kit.pull(audience="c")
    assert kit.requests == before
    await kit.pull(audience="b")
    assert kit.requests == before + 1
