"""Commands without clients: each is cleaned up after, whatever happens when."""

import asyncio
import logging

import pytest

from pykubelet.criserver.streaming.commands.detached import DetachedExecs
from pykubelet.testing.wait import settle


class _Command:
    """Runs until it is unwanted, and takes a while to be cleaned up."""

    def __init__(self) -> None:
        self.unwanted = False
        self.may_end = asyncio.Event()
        self.cleaned_up = False

    async def outlive(self, unwanted: asyncio.Event) -> None:
        await unwanted.wait()
        self.unwanted = True
        await self.may_end.wait()
        self.cleaned_up = True


async def test_one_that_has_not_begun_is_cleaned_up() -> None:
    detached = DetachedExecs(1)
    commands = [_Command() for _ in range(3)]
    for command in commands:
        command.may_end.set()
        detached.take(command.outlive)
    await settle()
    assert [command.cleaned_up for command in commands] == [True, True, False]
    await detached.end()
    assert commands[2].cleaned_up


async def test_a_clean_up_goes_on_when_all_are_ended() -> None:
    detached = DetachedExecs(1)
    slow, quick = _Command(), _Command()
    quick.may_end.set()
    detached.take(slow.outlive)
    detached.take(quick.outlive)
    end = asyncio.ensure_future(detached.end())
    await settle()
    assert slow.unwanted
    assert not end.done()
    slow.may_end.set()
    await end
    assert slow.cleaned_up
    assert quick.cleaned_up


async def test_one_that_ends_makes_room() -> None:
    detached = DetachedExecs(1)

    async def ends_by_itself(_: asyncio.Event) -> None:
        return

    detached.take(ends_by_itself)
    await settle()
    stays = _Command()
    stays.may_end.set()
    detached.take(stays.outlive)
    await settle()
    assert not stays.unwanted
    await detached.end()


async def test_a_mistake_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    detached = DetachedExecs(1)

    async def breaks(_: asyncio.Event) -> None:
        raise ValueError("unforeseen")

    with caplog.at_level(logging.ERROR):
        detached.take(breaks)
        await detached.end()
    assert "cleanup of a detached exec failed" in caplog.text
