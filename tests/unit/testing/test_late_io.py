"""Event loops that learn late of what is ready: every order comes, nothing is lost, and it ends with the block."""

import asyncio
import socket
import threading

from pykubelet.testing.late_io import late_io


async def _order() -> str:
    """The order in which the loop learns of two sockets that are ready at the same time."""
    loop = asyncio.get_running_loop()
    pairs = {name: socket.socketpair() for name in "ab"}
    seen: list[str] = []
    both = asyncio.Event()

    def note(name: str) -> None:
        seen.append(name)
        loop.remove_reader(pairs[name][0])
        if len(seen) == len(pairs):
            both.set()

    for name, (ours, theirs) in pairs.items():
        loop.add_reader(ours, note, name)
        theirs.send(b"x")
    async with asyncio.timeout(30):
        await both.wait()
    for ours, theirs in pairs.values():
        ours.close()
        theirs.close()
    return "".join(seen)


def test_loop_learns_of_descriptors_in_every_order() -> None:
    with late_io(seed=1), asyncio.Runner() as runner:
        orders = {runner.run(_order()) for _ in range(40)}
    assert orders == {"ab", "ba"}


async def _answer_of_a_thread() -> int:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[int] = loop.create_future()
    thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(answer.set_result, threading.get_ident()))
    thread.start()
    async with asyncio.timeout(30):
        found = await answer
    thread.join()
    return found


def test_answers_of_threads_arrive() -> None:
    with late_io(seed=1), asyncio.Runner() as runner:
        assert runner.run(_answer_of_a_thread()) != threading.get_ident()


def test_loops_after_the_block_are_as_usual() -> None:
    before = asyncio.SelectorEventLoop.__init__, asyncio.BaseEventLoop.call_soon_threadsafe
    with late_io(seed=1):
        assert (asyncio.SelectorEventLoop.__init__, asyncio.BaseEventLoop.call_soon_threadsafe) != before
    assert (asyncio.SelectorEventLoop.__init__, asyncio.BaseEventLoop.call_soon_threadsafe) == before
