"""The verbs that change a job, typed at a real cluster with a job whose agents are played."""

from tests.integration.money.helpers import add_node, workers
from tests.support.cluster.operator_world import World
from tests.support.cluster.scripted_agent import Times
from tests.support.processes.plugin import typed

PLACE = {"volume": {"nfs": {"server": "10.0.0.1", "path": "/checkpoints"}}}


async def test_a_job_is_scaled_saved_suspended_resumed_and_stopped(world: World) -> None:
    await add_node(world, "a", "36")
    world.play().step_times = lambda _: Times(0.05)
    world.play().saves_often = True
    await world.create_job(
        workers={**workers(3), "replicas": 2}, scaling={"mode": "Manual"}, checkpoint=PLACE
    )
    here = ("-n", world.namespace)
    async with world.operator():
        await world.until_job(lambda s: s.get("progress", {}).get("step", 0) > 0)
        too_many = await typed(world.cluster, "scale", "job", "4", *here)
        scaled = await typed(world.cluster, "scale", "job", "3", *here)
        await world.until_job(lambda s: s["workers"].get("summary") == "3/3")
        suspended = await typed(world.cluster, "suspend", "job", "--wait", *here)
        held = await world.job()
        resumed = await typed(world.cluster, "resume", "job", *here)
        await world.until_phase("Running")
        saved = await typed(world.cluster, "checkpoint", "job", *here)
        world.play().may_finish.set()
        await world.until_phase("Succeeded")
        unasked = await typed(world.cluster, "stop", "job", *here)
        stopped = await typed(world.cluster, "stop", "job", "--yes", *here)
        gone = await typed(world.cluster, "show", "job", *here)
    assert (too_many.code, "workers.min and max allow 1 to 3" in too_many.err) == (1, True)
    assert (scaled.code, scaled.out) == (0, "job: 2 -> 3 workers\n")
    assert (saved.code, saved.out.startswith("job: saved step ")) == (0, True), saved.err
    assert (suspended.code, held["status"]["phase"]) == (0, "Suspended"), suspended.err
    assert resumed.code == 0
    assert (unasked.code, "--yes" in unasked.err) == (1, True)
    assert (stopped.code, "deleted" in stopped.out) == (0, True), stopped.err
    assert gone.code == 4
