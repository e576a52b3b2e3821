"""Shares of memory."""

from contextlib import ExitStack

from pykubelet.criserver.memory_shares import MemoryShares


def test_shares_become_smaller_and_are_given_back() -> None:
    shares = MemoryShares(total=1000, smallest=10, largest=100)
    with ExitStack() as held:
        sizes = [held.enter_context(shares.reserve()) for _ in range(100)]
        assert sizes == sorted(sizes, reverse=True)
        assert (sizes[0], sizes[-1]) == (100, 10)
        assert sum(sizes) <= 1000 + 100 * 10
    with shares.reserve() as again:
        assert again == 100
