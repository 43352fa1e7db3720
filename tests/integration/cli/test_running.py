"""`run`, `doctor` and TAB, typed at a real cluster; also by somebody with few rights."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from devcluster.client import at
from tests.integration.money.helpers import add_node
from tests.support.cluster.operator_world import World
from tests.support.processes.plugin import PROGRAMS, typed

SCRIPT = "print('hello')\n"


async def test_a_script_becomes_a_job_that_is_followed_to_its_end(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "hello.py"
    script.write_text(SCRIPT)
    here = ("-n", world.namespace)
    way = ("run", str(script), "--name", "job", "--image", "example/train:1", *here)
    await add_node(world, "a", "36")
    world.play().may_finish.set()
    unasked = await typed(world.cluster, *way)
    async with world.operator():
        followed = await typed(world.cluster, *way, "--yes", "--", "--epochs", "3")
        script.write_text(f"{SCRIPT}#")
        again = await typed(world.cluster, *way, "--yes")  # and leaves no files behind
        monkeypatch.setenv("PATH", f"{PROGRAMS}:{os.environ['PATH']}")
        asked = ("__complete", "tjob", "show", *here, "jo")  # what shells ask kubectl at a TAB
        offered = await asyncio.to_thread(world.cluster.kubectl, *asked)
    [code] = [
        one
        for one in await world.kube.list(at("configmaps", world.namespace))
        if one["metadata"]["name"].startswith("job-")
    ]
    job = await world.job()
    assert (unasked.code, "--yes" in unasked.err) == (1, True)
    assert followed.code == 0, followed.err
    assert f"job: submitted to {world.namespace}\n" in followed.out
    assert "Succeeded" in followed.out.splitlines()[-1]
    [container] = job["spec"]["workers"]["template"]["spec"]["containers"]
    assert container["args"] == ["hello.py", "--epochs", "3"]
    assert (code["immutable"], code["data"]) == (True, {"hello.py": SCRIPT})
    assert [one["uid"] for one in code["metadata"]["ownerReferences"]] == [job["metadata"]["uid"]]
    assert (again.code, "choose another --name" in again.err) == (1, True)
    assert offered.stdout == "job\tSucceeded\n:4\n"


async def test_somebody_without_rights_is_told_which_are_missing(
    world: World, tmp_path: Path
) -> None:
    made = world.cluster.kubectl("-n", world.namespace, "create", "token", "default")
    config = json.loads(world.cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": made.stdout.strip()}
    file = tmp_path / "config"
    file.write_text(json.dumps(config))
    way = ("-n", world.namespace, "--kubeconfig", str(file))
    shown = await typed(world.cluster, "show", "job", *way)
    looked_at = await typed(world.cluster, "doctor", "-o", "json", *way)
    as_admin = await typed(world.cluster, "doctor", "-n", world.namespace)
    elsewhere = await typed(world.cluster, "list", "--context", "nowhere")
    assert (shown.code, "not allowed:" in shown.err) == (3, True)
    lacking = [one["what"] for one in json.loads(looked_at.out) if one["health"] == "Worse"]
    assert "you may not create trainingjobs.spotrun.dev, which is needed for: run" in lacking
    assert f"you may use every command in {world.namespace}" in as_admin.out
    assert "the CRDs are installed, with every field of this version" in as_admin.out
    assert (elsewhere.code, "there is no context 'nowhere'" in elsewhere.err) == (3, True)
