import pytest

from spotrun.http.rate_limit import Bucket, Buckets, Rate


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_then_so_many_per_second() -> None:
    clock = Clock()
    bucket = Bucket(Rate(per_second=2, burst=3), clock)

    for _ in range(3):
        assert bucket.wait_seconds() == 0
        bucket.take()

    assert bucket.wait_seconds() == pytest.approx(0.5)
    bucket.take()  # on credit
    assert bucket.wait_seconds() == pytest.approx(1.0)
    clock.now += 1.0
    assert bucket.wait_seconds() == 0
    clock.now += 3600
    assert [take(bucket) for _ in range(4)] == [True, True, True, False]


def test_what_is_drained_gives_nothing_for_a_while_however_often_it_is_drained() -> None:
    clock = Clock()
    bucket = Bucket(Rate(per_second=20, burst=60), clock)

    for _ in range(3):
        bucket.drain(1.0)
    assert bucket.wait_seconds() == pytest.approx(1.05)
    clock.now += 1.06
    assert [take(bucket) for _ in range(2)] == [True, False]


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    clock = Clock()
    bucket = Bucket(Rate(per_second=1, burst=1), clock)

    clock.now -= 50

    assert take(bucket)


def test_each_key_has_a_bucket_and_the_oldest_are_forgotten() -> None:
    buckets = Buckets(Rate(per_second=0.001, burst=1), Clock(), most=2)

    assert take(buckets["a"])
    assert take(buckets["b"])
    assert not take(buckets["a"])
    assert take(buckets["c"])  # b is forgotten
    assert not take(buckets["a"])
    assert take(buckets["b"])


def take(bucket: Bucket) -> bool:
    if bucket.wait_seconds() > 0:
        return False
    bucket.take()
    return True
