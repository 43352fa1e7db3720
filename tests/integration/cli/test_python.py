"""docs/python.md, run from top to bottom against a real API server, with agents that are played."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from spotrun import Client, ClusterError, JobFailedError, NoSuchJobError, RefusedError
from tests.integration.money.helpers import add_node, workers
from tests.support.cluster.operator_world import World
from tests.support.cluster.scripted_agent import Times

PAGE = Path(__file__).parents[3] / "docs/python.md"
TEXT = PAGE.read_text()
SNIPPETS = [
    (TEXT.count("\n", 0, found.start()) + 2, found[1])
    for found in re.finditer(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
]


@pytest.fixture
def kubeconfig(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubeconfig whose context names the test's namespace, as users have one."""
    config = json.loads(world.cluster.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = world.namespace
    file = tmp_path / "config"
    file.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(file))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('hello')\n")
    return file


async def test_the_page_holds_from_top_to_bottom(
    world: World, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await add_node(world, "a", "36")
    play = world.play("gpt")
    play.step_times, play.saves_often = lambda _: Times(0.05), True
    names: dict[str, Any] = {}
    async with world.operator():
        for line, source in SNIPPETS:
            if "job.wait(" in source:
                play.may_finish.set()
            code = compile("\n" * (line - 1) + source, str(PAGE), "exec")
            answers = _profile_is_made(world) if "profile(" in source else asyncio.sleep(0)
            await asyncio.gather(asyncio.to_thread(exec, code, names), answers)
            if "Mixed" in source:
                await world.until_job(lambda s: "step" in s.get("progress", {}), "gpt")
                world.agent(0, "gpt").context.log("loss 0.5")
    said = capsys.readouterr().out
    assert re.search(r"^Running \d+ ", said, re.MULTILINE)
    assert said.count("loss 0.5") >= 1
    assert "aten::addmm 1.2 ms\nthe trace is in profile.json.gz\n" in said
    assert re.search(r"^step-\d+\S* \d+$", said, re.MULTILINE)
    assert re.search(r"^Succeeded 0\.\d+ ", said, re.MULTILINE)
    assert "True ['gpt', 'small']" in said
    assert "{'gpt': 'Succeeded'}" in said
    assert "Did you mean gpt?" in said
    assert "<svg" in names["report"].html()
    assert {one.name for one in kubeconfig.parent.iterdir()} >= {"gpt.html"}
    assert "<svg" in names["job"]._repr_html_()
    [container] = names["job"].manifest.spec.workers.template.spec.containers
    assert container.args == ("train.py", "--epochs", "3")


async def _profile_is_made(world: World) -> None:
    """Answer as a worker does that is asked for a profile."""

    async def order() -> str | None:
        annotations = (await world.job("gpt"))["metadata"].get("annotations", {})
        found: str | None = annotations.get("spotrun.dev/profile-wanted")
        return found

    asked = json.loads(await world.until(order))["asked"]
    for sentence in ("aten::addmm 1.2 ms", "the trace is in profile.json.gz", "done"):
        world.agent(0, "gpt").context.log(f"profile {asked}: {sentence}")


async def test_logs_are_followed_to_the_end_and_a_failure_is_raised(
    world: World, kubeconfig: Path
) -> None:
    await add_node(world, "a", "36")
    world.play().step_times = lambda _: Times(0.05)
    await world.create_job(workers=workers(1), failures={"maxRestarts": 0})
    async with Client() as client, world.operator():
        await world.until_job(lambda s: "step" in s.get("progress", {}))
        world.agent(0).context.log("first")
        job = await client.get.aio("job")
        heard = []
        async for line in job.logs.aio(follow=True):
            heard.append(line.text)
            world.play().crash[0] = 3
        with pytest.raises(JobFailedError, match="job has failed: "):
            await job.wait.aio(timeout=60)
        with pytest.raises(RefusedError, match="has failed and cannot be scaled"):
            await job.scale.aio(1)
    assert heard[0] == "first"
    assert job.is_over


async def test_a_wait_ends_in_time_and_leaves_nothing_running(
    world: World, kubeconfig: Path
) -> None:
    await world.create_job(suspend=True)
    async with Client() as client:
        job = await client.get.aio("job")
        assert (await client.report.aio("job")).content.title == f"{world.namespace}/job"
        with pytest.raises(TimeoutError):
            await job.wait.aio(timeout=0.2)
        with pytest.raises(RefusedError, match="only a running job has steps"):
            await job.profile.aio()
        with pytest.raises(ValueError, match="steps= 0: give a number from 1 to 200"):
            await job.profile.aio(steps=0)
        waiting = asyncio.create_task(job.wait.aio())
        await job.refresh.aio()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await job.delete.aio()
        with pytest.raises(NoSuchJobError):
            await job.wait.aio()
        with pytest.raises(NoSuchJobError):
            await client.report.aio("job")


async def test_mistakes_are_said_before_anything_is_sent(world: World, kubeconfig: Path) -> None:
    with Client() as client:
        with pytest.raises(ValueError, match=r"workers= 9\.\.2: give a number"):
            client.run("train.py", workers="9..2")
        (kubeconfig.parent / "secret.pem").touch()
        with pytest.raises(ValueError, match=r"with allow_file= 'secret\.pem'"):
            client.run(".", entry="train.py")
        with pytest.raises(RefusedError, match="Python and PyTorch by image="):
            client.run("train.py")
        with pytest.raises(ValueError, match="unknown field"):
            client.apply({"apiVersion": "spotrun.dev/v1alpha1", "kind": "TrainingJob", "x": 1})
        with pytest.raises(RefusedError, match="the cluster refuses this job"):
            client.run("train.py", image="x", name="A" * 60)
        assert client.list() == ()
    with pytest.raises(ClusterError, match="there is no context 'nowhere'"):
        Client(context="nowhere").list()
