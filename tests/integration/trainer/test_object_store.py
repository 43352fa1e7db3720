"""A job without a volume: its checkpoints are in S3."""

from devcluster.s3.server import Server
from tests.integration.trainer.helpers import Place


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
