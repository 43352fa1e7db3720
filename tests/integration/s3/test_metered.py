"""What a training says of its use of a bucket, against a meter between it and a real S3 server."""

from pathlib import Path

import pytest

from devcluster.s3.server import Server
from spotrun.policies.cost.storage.strategy import requests_per_save
from spotrun_trainer.checkpoint import open_storage
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.places import requests
from spotrun_trainer.checkpoint.places.request_count import Made, RequestCount
from tests.faults.store_proxy import StoreProxy
from tests.meter.store import tier
from tests.unit.trainer.checkpoint.states import NAME, checkpoints, save, small_training

PARTS = 3
BIG = (PARTS << 24) - 5


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> RequestCount:
    """A count that nothing has been added to."""
    count = RequestCount()
    monkeypatch.setattr(requests, "COUNT", count)
    return count


def seen_by(proxy: StoreProxy) -> Made:
    """The same by what passed, as the price list counts it."""
    by_tier = {number: [one for one in proxy.passed if tier(one) == number] for number in (1, 2)}
    data = [one for one in by_tier[2] if one.method == "GET" and one.status < 300]
    return Made(
        puts=len(by_tier[1]),
        gets=len(by_tier[2]),
        put_bytes=sum(one.sent_bytes for one in by_tier[1] if one.method == "PUT"),
        got_bytes=sum(one.got_bytes for one in data),
    )


def test_every_request_is_counted_as_the_price_list_does(
    address: str, proxy: StoreProxy, count: RequestCount
) -> None:
    training = small_training()
    with checkpoints(address, keep=1) as opened:
        save(address, training.flatten())
        opened.load(NAME, small_training(seed=2))
        save(address, training.flatten(), name="step-20.g1")
        opened.prune("step-20.g1", world_number=1)
        opened.stored()
    place = open_storage(address)
    place.check()
    place.write_data(Name(30, 1), "rank-0.safetensors", [memoryview(bytes(BIG))], len)
    assert count.made() == seen_by(proxy)
    assert count.made().puts > PARTS + 2


def test_a_plan_of_saves_counts_on_about_as_many_requests_as_they_make(
    address: str, count: RequestCount
) -> None:
    training = small_training()
    with checkpoints(address, keep=1) as opened:
        for step in (1, 2, 3):  # the third one is as all others will be
            before = count.made()
            save(address, training.flatten(), name=f"step-{step}.g1")
            opened.prune(f"step-{step}.g1", world_number=1)
            opened.stored()
    made, planned = count.made() - before, requests_per_save(1, processes=1)
    assert (made.puts, made.gets) == (planned.puts, planned.gets)


def test_what_is_stored_is_what_lies_on_the_servers_disk(
    s3: Server, bucket: str, address: str
) -> None:
    save(address, small_training().flatten())
    save(address, small_training().flatten(), name="step-20.g1")
    with checkpoints(address, keep=1) as opened:
        assert (before := opened.stored()) is not None
        assert (before.bytes, before.checkpoints) == (on_disk(s3.folder / bucket), 2)
        opened.prune("step-20.g1", world_number=1)
        assert (after := opened.stored()) is not None
    assert (after.bytes, after.checkpoints) == (on_disk(s3.folder / bucket), 1)
    assert after.bytes < before.bytes


def on_disk(folder: Path) -> int:
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())
