"""What a process says of its requests: those of its present world, and none of them twice."""

import pytest

from spotrun.wire import StoreUse
from spotrun_trainer.checkpoint.places.request_count import RequestCount
from spotrun_trainer.checkpoint.places.store_meter import (
    StoreMeter,
    Where,
    open_store_meter,
    where_is,
)


def test_what_a_restore_asked_for_counts_for_the_world_that_it_leads_to() -> None:
    count = RequestCount()
    meter = StoreMeter(Where("eu-west-1"), count)
    count.read(100)
    assert meter.use_in(0).gets == 1  # nobody reads that before there is a world
    count.wrote(10)
    assert meter.use_in(3) == StoreUse(1, 1, 10, 100, region="eu-west-1")


def test_each_request_is_in_the_reports_of_one_world() -> None:
    count = RequestCount()
    meter = StoreMeter(Where(), count)
    count.wrote(10)
    assert meter.use_in(1).puts == 1
    count.wrote(5)  # after the last report of that world
    assert meter.use_in(2) == StoreUse(puts=1, put_bytes=5)
    assert meter.use_in(2) == StoreUse(puts=1, put_bytes=5)


def test_what_is_stored_is_said_until_somebody_looks_again() -> None:
    meter = StoreMeter(Where(), RequestCount())
    meter.note_stored(100, 2)
    assert (meter.use_in(1).stored_bytes, meter.use_in(2).checkpoints) == (100, 2)


@pytest.mark.parametrize(
    ("place", "env", "expected"),
    [
        ("s3://b/p", {}, Where("us-east-1")),
        ("s3://b/p", {"AWS_REGION": "eu-west-1"}, Where("eu-west-1")),
        ("s3://b/p", {"AWS_DEFAULT_REGION": "eu-west-1"}, Where("eu-west-1")),
        (
            "s3://b/p",
            {"AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": "http://minio.store:9000/"},
            Where(endpoint="minio.store:9000"),
        ),
        (
            "s3://b/p",
            {
                "AWS_REGION": "eu-west-1",
                "AWS_ENDPOINT_URL": "https://bucket.vpce-1.s3.eu-west-1.vpce.amazonaws.com",
            },
            Where("eu-west-1"),
        ),
        ("gs://b/p", {"AWS_REGION": "us-east-1"}, Where()),
        ("gs://b/p", {"AWS_ENDPOINT_URL": "http://minio.store:9000"}, Where()),
        (
            "gs://b/p",
            {"GOOGLE_BASE_URL": "http://gcs.store:4443"},
            Where(endpoint="gcs.store:4443"),
        ),
        ("az://a/c", {"AZURE_STORAGE_ENDPOINT": "https://a.blob.core.windows.net"}, Where()),
        (
            "az://a/c",
            {"AZURE_STORAGE_ENDPOINT": "http://azurite:10000/a"},
            Where(endpoint="azurite:10000"),
        ),
    ],
)
def test_where_a_bucket_is_follows_from_the_environment(
    place: str, env: dict[str, str], expected: Where
) -> None:
    assert where_is(place, env) == expected


def test_a_folder_has_no_meter() -> None:
    assert open_store_meter("/checkpoints") is None
    assert open_store_meter(None) is None
