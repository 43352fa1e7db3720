"""Jobs without a volume: their checkpoints are in an object store, of each kind.

`gs` is Google's XML API, translated to the S3 server's: `tests/support/storage/gcs_front.py`.
"""

import shutil

from devcluster.client import Manifest, at
from devcluster.s3 import program
from devcluster.s3.server import Server
from tests.integration.trainer.helpers import FOR_LONG, Place
from tests.support.storage import s3_pod
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
        storage = (await _lose_the_node(place))["cost"]["storage"]
    assert storage["pricing"] == "Partial", "no table has the price of this store"
    assert storage["storedBytes"] > 0


async def test_the_store_may_be_a_pod_of_the_cluster(place: Place) -> None:
    """The same pod as on kind (`tests/e2e/test_object_store.py`), with its Secret."""
    await place.add_nodes("s3", labels={"karpenter.sh/capacity-type": "on-demand"})
    server = await _start_server(place)
    checkpoint, found = s3_pod.saves_there(server["status"]["podIP"])  # Services are none here
    env = {one["name"]: one["value"] for one in found["env"]}
    told = (place.folder, *FOR_LONG)
    await place.start(
        "run_loop.py", *told, workers=1, checkpoint=checkpoint, env=env, env_from=found["envFrom"]
    )
    async with place.operator():
        status = await _lose_the_node(place)
    assert status["cost"]["storage"]["storedBytes"] > 0
    assert _runs(await place.kube.get(at("pods", place.namespace, s3_pod.NAME)))


async def _start_server(place: Place) -> Manifest:
    """Start the server on the node on demand; returns its pod."""
    claim = (await place.claim())["volume"]
    (folder := place.checkpoints / "program").mkdir()
    shutil.copy(program.ensure(print), folder)
    for one in s3_pod.s3_server("none", claim, folder=folder.name):
        await place.kube.create(at(f"{one['kind'].lower()}s", place.namespace), one)
    pods = at("pods", place.namespace)
    pod = await place.kube.until(pods, s3_pod.NAME, _runs)
    assert pod is not None
    return pod


def _runs(pod: Manifest | None) -> bool:
    return pod is not None and bool(pod["status"]["phase"] == "Running")


async def _lose_the_node(place: Place) -> Manifest:
    """Take the only worker's node away once its state is in the store; returns what comes of it."""
    await place.until_job(s3_pod.has_stored)
    before = place.trace()
    await place.machine(await place.member(0)).vanish(delete_node=True)
    after = await place.until_trains(1, after=before)
    job = await place.until_job(s3_pod.has_restored)
    status: Manifest = job["status"]
    assert status["world"]["restore"] == f"step-{after[0]['step'] - 1}.g1"
    return status


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
