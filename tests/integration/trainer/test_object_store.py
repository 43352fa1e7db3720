"""Jobs without a volume: their checkpoints are in an object store, of each kind.

`gs` is Google's XML API, translated to the S3 server's: `tests/support/storage/gcs_front.py`.
"""

from devcluster.client import Manifest
from devcluster.s3.server import Server
from tests.integration.trainer.helpers import FOR_LONG, Place
from tests.support.storage.servers import StoreServer


async def test_a_node_that_is_lost_takes_no_step_with_it_that_is_in_the_bucket(
    place: Place, store_server: StoreServer
) -> None:
    store_server.make_bucket(bucket := f"lost-{place.namespace}")
    await place.start(
        "run_loop.py",
        place.folder,
        *FOR_LONG,
        workers=1,  # so that no peer has the state
        checkpoint={"uri": f"{store_server.address(bucket)}/runs", "keep": 2},
        env=store_server.environment(),
    )
    async with place.operator():
        await place.until_job(_has_stored)
        before = place.trace()
        await place.machine(await place.member(0)).vanish(delete_node=True)
        after = await place.until_trains(1, after=before)
        job = await place.until_job(_goes_on)
    restored = job["status"]["world"]["restore"]
    assert restored == f"step-{after[0]['step'] - 1}.g1"
    storage = job["status"]["cost"]["storage"]
    assert storage["pricing"] == "Partial", "no table has the price of this store"
    assert storage["storedBytes"] > 0


def _has_stored(status: Manifest) -> bool:
    """Whether the operator knows that something is in the bucket."""
    return bool(status.get("accumulators", {}).get("storage", {}).get("storedBytes"))


def _goes_on(status: Manifest) -> bool:
    return bool(status["world"].get("restore") and status["phase"] == "Running")


async def test_a_job_needs_no_volume(place: Place, s3: Server) -> None:
    s3.make_bucket(place.namespace)
    await place.start(
        "run_loop.py",
        place.folder,
        "--steps",
        60,
        checkpoint={"uri": f"s3://{place.namespace}/runs", "keep": 1},
        env=s3.environment(),
    )
    async with place.operator():
        job = await place.until_phase("Succeeded")
        await place.until_all_ended()
    saved = job["status"]["checkpoint"]["name"]
    assert saved.startswith("step-60.g")
    own = s3.folder / place.namespace / "runs" / place.namespace / "job"
    assert {one.parent.name for one in own.rglob("COMPLETE")} >= {
        job["status"]["checkpoint"]["name"]
    }
    assert not (own / "OWNER").exists(), "it is over"
