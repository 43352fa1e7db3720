"""`make demo` as a joining worker runs it, judged by what it shows and by what it leaves behind."""

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.integration.demo.helpers import ROOT, Theatre

STALL = r"(?:stalled [\d. +=]+ s|no stall seen)"
CRASH = """
apiVersion: spotrun.dev/v1alpha1
kind: TrainingJob
metadata: {name: crash}
spec:
  failures: {maxRestarts: 0}
  workers:
    template:
      spec:
        containers: [{name: trainer, image: none, args: [crash.py]}]
"""


async def test_the_job_outlives_two_nodes_and_is_left_up_until_the_end(
    theatre: Theatre, tmp_path: Path
) -> None:
    recording = tmp_path / "demo.svg"
    demo = await theatre.start("--keep", "--record", str(recording))
    await demo.until("kubectl explain")  # the last line before it waits
    shown = demo.text

    notice = re.search(r"SPOT NOTICE: node (spot-\S+)", shown)
    cut = re.search(r"POWER CUT: node (spot-\S+)", shown)
    assert notice
    assert cut
    assert notice[1] != cut[1]
    told = [f"node {notice[1]} is taken back", "POWER CUT", "the job is Succeeded (Completed)"]
    assert [demo.place(words) for words in told] == sorted(demo.place(words) for words in told)
    assert len(re.findall(r"world \d+, workers .* in rank order", shown)) >= 3
    assert re.search(r"node spot-\S+ joins: spot, us-east-1[ab], \$0\.\d\d/h \(made up\)", shown)
    assert re.search(r"step \d+ of \d+, loss \d\.\d+, world \d+ with [23] workers; cost ", shown)
    assert re.search(rf"  notice      {STALL}; \d+ steps done again", shown)
    assert re.search(rf"  power cut   {STALL}; \d+ steps done again", shown)

    drawn = recording.read_text(encoding="utf-8")
    ET.fromstring(drawn)  # noqa: S314 - our own
    recorded = ["starting Kubernetes", "the job is Succeeded (Completed)", "steps done again"]
    assert [words for words in recorded if words not in drawn] == []
    assert len(drawn) < 150_000

    job = await _kubectl(shown, "get", "trainingjob", "tiny-lm", "-o", "json")
    assert json.loads(job)["status"]["phase"] == "Succeeded"
    assert len(json.loads(await _kubectl(shown, "get", "nodes", "-o", "json"))["items"]) >= 2

    assert await _down(demo.pid_file) == "demo: ended, and nothing was left running\n"
    assert await demo.ended() == 0
    assert theatre.leftovers() == []


@pytest.mark.parametrize(
    ("moment", "flags"),
    [("starting Kubernetes", ()), ("starting the operator", ("--s3",)), ("is Pending", ())],
)
async def test_ctrl_c_leaves_nothing_behind(
    theatre: Theatre, moment: str, flags: tuple[str, ...]
) -> None:
    demo = await theatre.start(*flags)
    await demo.until(moment)
    demo.interrupt()
    assert await demo.ended() == 130
    assert demo.lines[-1] == "demo: interrupted; nothing was left running"
    assert theatre.leftovers() == []


async def test_a_killed_demo_leaves_nothing_but_its_pid_file(theatre: Theatre) -> None:
    demo = await theatre.start("--s3")
    await demo.until("is Pending")
    demo.process.kill()
    await demo.process.wait()
    await theatre.until_left(demo.pid_file)
    assert await _down(demo.pid_file) == "demo: none runs\n"
    assert theatre.leftovers() == []


async def test_a_job_that_fails_says_why(theatre: Theatre, tmp_path: Path) -> None:
    (tmp_path / "crash.py").write_text("raise ArithmeticError('loss is not finite')\n")
    (tmp_path / "crash.yaml").write_text(CRASH)
    demo = await theatre.start("--job", str(tmp_path / "crash.yaml"), "--scripts", str(tmp_path))
    assert await demo.ended() == 1
    assert "The job has failed: " in demo.text
    assert "ArithmeticError: loss is not finite" in demo.text, demo.text
    assert theatre.leftovers() == []


async def test_a_job_that_is_over_too_early_is_no_success(theatre: Theatre, tmp_path: Path) -> None:
    (tmp_path / "crash.py").write_text("print('step 1  loss 0.5')\n")
    (tmp_path / "crash.yaml").write_text(CRASH)
    demo = await theatre.start("--job", str(tmp_path / "crash.yaml"), "--scripts", str(tmp_path))
    assert await demo.ended() == 1
    assert "The job ended before both nodes were lost" in demo.text
    assert theatre.leftovers() == []


async def test_a_recording_that_cannot_be_written_is_refused_before_anything_starts(
    theatre: Theatre, tmp_path: Path
) -> None:
    demo = await theatre.start("--record", str(tmp_path / "missing" / "demo.svg"))
    assert await demo.ended() == 2
    assert "demo.svg' cannot be written: No such file or directory. Name a file" in demo.lines[-1]
    assert theatre.leftovers() == []


async def test_a_manifest_that_is_none_is_refused_before_anything_starts(theatre: Theatre) -> None:
    demo = await theatre.start("--job", "README.md")
    assert await demo.ended() == 2
    assert "error: README.md cannot be read as a manifest" in demo.lines[-1]
    assert theatre.leftovers() == []


@pytest.mark.parametrize("steps", ["-1", "0", "many"])
async def test_steps_that_are_no_number_of_steps_are_refused(theatre: Theatre, steps: str) -> None:
    demo = await theatre.start(f"--steps={steps}")
    assert await demo.ended() == 2
    assert demo.lines[-1].endswith(f"--steps: '{steps}' is not a count: use 1, 2, 3 ...")
    assert theatre.leftovers() == []


async def _down(pid_file: Path) -> str:
    program = (sys.executable, "-m", "demo", "--down", "--pid-file", str(pid_file))
    return await _output(*program)


async def _kubectl(shown: str, *arguments: str) -> str:
    """Run kubectl as the demo says it can be run."""
    found = re.search(r"export KUBECONFIG=(\S+) PATH=(\S+):\$PATH", shown)
    assert found
    return await _output(f"{found[2]}/kubectl", *arguments, KUBECONFIG=found[1])


async def _output(*words: str, **environment: Any) -> str:
    process = await asyncio.create_subprocess_exec(
        *words, cwd=ROOT, env={**os.environ, **environment}, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()
