"""Stages of a real training: each has its values, and begins from the last one's checkpoint."""

import os
import signal
from collections import Counter
from typing import Any

from tests.integration.trainer.helpers import Place
from tests.integration.trainer.traces import Trace

STAGES: list[dict[str, Any]] = [
    {"name": "short", "untilStep": 30, "params": {"lr": "0.1"}},
    {
        "name": "long",
        "args": ["--length", "8"],
        "params": {"lr": "0.02", "batch": "32"},
        "stopWhen": {"metric": "val_loss", "noBetterSteps": 20},
    },
]


def of_stage(lines: Trace, name: str) -> Trace:
    return [line for line in lines if line["stage"] == name and "lr" in line]


async def test_two_stages_outlive_a_worker_that_is_killed_in_the_second(place: Place) -> None:
    where = await place.claim()
    arguments = (place.folder, "--pause", 0.05)
    await place.start(
        "staged_loop.py", *arguments, stages=STAGES, checkpoint=where, sizes={"min": 1}
    )
    async with place.operator():
        await place.until_trace(lambda lines: bool(of_stage(lines, "short")))
        pods = {pod["metadata"]["uid"] for pod in await place.pods()}
        lines = await place.until_trace(
            lambda lines: any(line["step"] > 40 for line in of_stage(lines, "long"))
        )
        assert {pod["metadata"]["uid"] for pod in await place.pods()} == pods, "the same pods"
        status = (await place.job())["status"]
        assert (status["stage"]["name"], status["stage"]["sinceStep"]) == ("long", 30)
        for pid in place.processes(await place.member(1)):
            os.kill(pid, signal.SIGKILL)
        await place.until_phase("Succeeded")
        job, lines = await place.job(), place.trace()
    status = job["status"]
    assert (status["reason"], status["stage"]["name"]) == ("NoImprovement", "long")
    short, long = of_stage(lines, "short"), of_stage(lines, "long")
    assert [line["step"] for line in short if line["rank"] == 0] == list(range(1, 31))
    assert {line["step"] for line in long} == set(range(31, max(x["step"] for x in long) + 1))
    assert (short[-1]["length"], long[-1]["length"], long[-1]["batch"]) == (4, 8, 32)
    # The schedule goes on where it was, from the rate of the stage.
    assert all(abs(x["lr"] - 0.1 / (1 + x["step"] / 100)) < 1e-9 for x in short)
    assert all(abs(x["lr"] - 0.02 / (1 + x["step"] / 100)) < 1e-9 for x in long)
    assert status["checkpoint"]["step"] == max(line["step"] for line in lines)
    ended = Counter(line["stage"] for line in lines if "ended" in line)
    assert (ended["short"], ended["long"] > 0) == (2, True), "scripts came to their ends"
