"""`kubectl tjob profile`, typed at a job whose workers are real: torchrun, and torch's profiler."""

import gzip
import json

from tests.integration.trainer.helpers import Place
from tests.support.processes.plugin import typed


async def test_a_rank_records_its_next_steps_on_request(place: Place) -> None:
    await place.start_run("--steps", 100_000)
    here = ("-n", place.namespace)
    async with place.operator():
        await place.until_trains(2)
        await place.until_phase("Running")
        nobody = await typed(place.cluster, "profile", "job", "--rank", "2", *here)
        many = await typed(place.cluster, "profile", "job", "--steps", "201", *here)
        done = await typed(place.cluster, "profile", "job", "--steps", "3", "--rank", "1", *here)
    assert (nobody.code, "the world has the ranks 0 to 1" in nobody.err) == (1, True), nobody.err
    assert (many.code, "from 1 to 200" in many.err) == (2, True), many.err
    assert (done.code, "aten::addmm" in done.out) == (0, True), done.err
    [file] = place.checkpoints.rglob("profile-step-*-rank-1.json.gz")
    assert file.name in done.out
    assert json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
