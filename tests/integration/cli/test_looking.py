"""The verbs that look, typed at a real cluster with a job whose agents are played."""

import json
import re

from spotrun import Client
from tests.integration.money.helpers import add_node, workers
from tests.support.cluster.operator_world import World
from tests.support.cluster.scripted_agent import Times
from tests.support.processes.plugin import begun, ended, typed


async def test_a_job_that_trains_is_listed_shown_explained_and_heard(world: World) -> None:
    await add_node(world, "a", "36")
    world.play().step_times = lambda _: Times(0.05)
    await world.create_job(workers=workers(2), finished={"report": True})
    here = ("-n", world.namespace)
    async with world.operator():
        await world.until_job(lambda s: "step" in s.get("progress", {}))
        await world.until_job(lambda s: "usd" in s.get("cost", {}))
        for number in (0, 1):
            world.agent(number).context.log(f"loss of {number}")
        listed = await typed(world.cluster, "list", *here)
        for_programs = await typed(world.cluster, "list", *here, "-o", "json")
        shown = await typed(world.cluster, "show", "job", *here)
        explained = await typed(world.cluster, "why", "job", *here)
        heard = await typed(world.cluster, "logs", "job", *here)
        heard_all = await typed(world.cluster, "logs", "job", "--all", *here)
        billed = await typed(world.cluster, "cost", "-A", "--by", "namespace", "-o", "csv")
        misspelt = await typed(world.cluster, "show", "jbo", *here)
        watcher = await begun(world.cluster, "watch", "job", *here)
        follower = await begun(world.cluster, "logs", "job", "-f", *here)
        assert watcher.stdout is not None
        assert b"Running, workers 2/2" in await watcher.stdout.readline()
        world.play().may_finish.set()
        watched, followed = await ended(watcher), await ended(follower)
        await _is_kept(world)
        await world.kube.delete(world.jobs("job"))
        await world.until(lambda: _is_gone(world))
        reported = await typed(world.cluster, "report", "job", "-o", "markdown", *here)
        unknown = await typed(world.cluster, "report", "jbo", *here)
        where = str(world.cluster.kubeconfig)
        async with Client(world.namespace, kubeconfig=where) as client:
            kept = await client.report.aio("job")
    assert listed.code == shown.code == explained.code == heard.code == billed.code == 0
    assert re.search(r"^job +Running +2/2 .* 18\.00 ", listed.out, re.MULTILINE)
    [row] = json.loads(for_programs.out)
    assert (row["name"], row["phase"], row["usdPerHour"]) == ("job", "Running", "18")
    assert "2 workers train." in shown.out
    assert "world 1: 2 workers, entered by Restart" in shown.out
    assert re.search(r"^ +0 +0 +Running +9\.00 +a .* job-\w+-0$", shown.out, re.MULTILINE)
    assert "2 workers at $9.00 an hour each." in explained.out
    assert heard.out == "loss of 0\n"
    assert sorted(heard_all.out.splitlines()) == ["0 loss of 0", "1 loss of 1"]
    assert re.search(rf"^{world.namespace},0\.\d+,18,", billed.out, re.MULTILINE)
    assert (misspelt.code, "Did you mean job?" in misspelt.err) == (4, True)
    assert watched.code == followed.code == 0
    assert "Succeeded" in watched.out.splitlines()[-1]
    assert followed.out.startswith("loss of 0\n")
    assert reported.out.startswith(f"# Training job {world.namespace}/job: Succeeded\n")
    assert "world 1: 2 workers, entered by Restart" in reported.out
    assert "The job was deleted; this is from ConfigMap job-" in reported.out
    assert (reported.code, unknown.code) == (0, 4)
    assert [one.size for one in kept.content.moments if one.size] == [2]


async def _is_kept(world: World) -> None:
    async def told() -> bool:
        return "spotrun.dev/kept-report" in (await world.job())["metadata"].get("annotations", {})

    await world.until(told)


async def _is_gone(world: World) -> bool:
    return await world.kube.list(world.jobs()) == []
