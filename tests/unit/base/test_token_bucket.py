"""The arithmetic of token buckets."""

import pytest

from pykubelet.base.token_bucket import TokenBucket


def test_reserve_returns_the_time_until_each_token() -> None:
    bucket = TokenBucket(2, 3, now=100.0)
    assert [bucket.reserve(100.0) for _ in range(5)] == [0, 0, 0, 0.5, 1]
    assert bucket.reserve(101.0) == 0.5


def test_try_take_keeps_the_tokens_that_it_does_not_take() -> None:
    bucket = TokenBucket(0.5, 1, now=0.0)
    assert [bucket.try_take(at) for at in (0.0, 1.0, 1.9, 2.0, 2.1)] == [True, False, False, True, False]


def test_bucket_is_never_fuller_than_the_burst() -> None:
    bucket = TokenBucket(10, 2, now=0.0)
    assert [bucket.try_take(1e6) for _ in range(3)] == [True, True, False]


def test_clock_that_goes_back_adds_no_tokens() -> None:
    bucket = TokenBucket(1, 1, now=10.0)
    assert bucket.try_take(10.0)
    assert not bucket.try_take(5.0)
    assert bucket.try_take(6.0)


def test_rate_of_zero_is_no_limit_and_burst_of_zero_is_one() -> None:
    assert all(TokenBucket(0, 0, now=0.0).try_take(0.0) for _ in range(100))
    assert TokenBucket(-1, 0, now=0.0).reserve(0.0) == 0
    bucket = TokenBucket(1, 0, now=0.0)
    assert [bucket.try_take(0.0) for _ in range(2)] == [True, False]


def test_changed_limits_hold_from_then_on_and_free_no_tokens() -> None:
    bucket = TokenBucket(1, 4, now=0.0)
    assert all(bucket.try_take(0.0) for _ in range(3))
    bucket.change(10, 2, 0.0)
    assert [bucket.try_take(0.0) for _ in range(2)] == [True, False]
    assert bucket.reserve(0.0) == pytest.approx(0.1)
    bucket.change(0, 2, 0.0)
    assert bucket.reserve(0.0) == 0
    full = TokenBucket(1, 9, now=0.0)
    full.change(1, 2, 0.0)
    assert [full.try_take(0.0) for _ in range(3)] == [True, True, False]


def test_several_tokens_are_reserved_at_once() -> None:
    bucket = TokenBucket(10, 20, now=0.0)
    assert bucket.reserve(0.0, 20) == 0.0
    assert bucket.reserve(0.0, 50) == 5.0
    assert bucket.reserve(5.0) == pytest.approx(0.1)
