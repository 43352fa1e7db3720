"""More workers, fewer, none for a while: with kubectl, as people do it."""

import time

from tests.e2e.site import JOB, Site
from tests.integration.trainer.traces import differences
from tests.support.jobs.statuses import failures_of


async def test_a_job_grows_and_shrinks_under_way(site: Site, alone: dict[int, str]) -> None:
    await site.start_run(workers=1)
    await site.until_trains(1)

    for size in (2, 1):
        asked_at = time.time()
        await site.kubectl("scale", f"trainingjob/{JOB}", f"--replicas={size}")
        await site.until_trains(size, since=asked_at)

    status = await site.status()
    assert status["world"]["entry"] == "Boundary"
    assert differences(await site.trace(), alone) == set()
    assert failures_of(status) == 0


async def test_a_suspended_job_goes_on_with_the_very_next_step(
    site: Site, alone: dict[int, str]
) -> None:
    await site.start_run()
    await site.until_trains(2)

    await site.kubectl(*suspend("true"))
    stopped = await site.until(lambda s: s["phase"] == "Suspended")
    await site.until_no_workers()
    before = (await site.trace())[-1]["step"]
    assert stopped["suspendedBy"] == ["User"]

    resumed_at = time.time()
    await site.kubectl(*suspend("false"))
    after = await site.until_trains(2, since=resumed_at)
    assert min(line["step"] for line in after) == before + 1
    assert differences(await site.trace(), alone) == set()
    assert failures_of(await site.status()) == 0


def suspend(is_suspended: str) -> tuple[str, ...]:
    patch = f'{{"spec": {{"suspend": {is_suspended}}}}}'
    return ("patch", f"trainingjob/{JOB}", "--type=merge", f"--patch={patch}")
