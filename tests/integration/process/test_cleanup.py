"""`spotrun cleanup` against a real API server, with jobs whose pods wait for the operator."""

import asyncio
import sys
from pathlib import Path

import pytest

from devcluster.client import at
from spotrun.api.names import FINALIZER_METERED, FINALIZER_SPEND
from tests.integration.process.helpers import Launcher
from tests.support.cluster.operator_world import World

ROOM = {"cpu": "64", "memory": "64Gi"}
FOREIGN = "example.com/keep"
WATCHING = "checking for some seconds that no operator renews the Lease in spotrun-system"


async def clean_up(kubeconfig: Path, *arguments: str) -> tuple[int, str]:
    """Run the command as a person with this kubeconfig; its exit code and what it said."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "spotrun", "cleanup", "--kubeconfig", str(kubeconfig)),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


async def finalizers(world: World) -> list[list[str]]:
    return [pod["metadata"].get("finalizers", []) for pod in await world.pods()]


@pytest.fixture
async def abandoned(world: World, operator: Launcher) -> World:
    """A job with two workers, whose operator was killed."""
    await world.nodes.add("a", capacity=ROOM)
    replica = await operator.start()
    await world.create_job(workers={"min": 2, "max": 2, "replicas": 2})
    await world.until_phase("Running")
    replica.process.kill()
    await replica.ended()
    return world


async def test_pods_of_a_deleted_job_go_away(abandoned: World, account: Path) -> None:
    world = abandoned
    await world.kube.delete(world.jobs("job"))

    async def all_wait() -> bool:
        pods = await world.pods()
        return len(pods) == 2 and all("deletionTimestamp" in pod["metadata"] for pod in pods)

    await world.until(all_wait)
    assert await finalizers(world) == [[FINALIZER_METERED]] * 2

    code, said = await clean_up(account, "--watch-namespace", world.namespace)
    assert (code, said.splitlines()) == (
        0,
        [WATCHING, f"{world.namespace}/job: 2 pods released", "no pod waits for spotrun"],
    )
    await world.until_no_pods()


async def test_what_runs_goes_on_and_finalizers_of_others_stay(
    abandoned: World, account: Path
) -> None:
    world = abandoned
    before = await world.pods()
    named = at("pods", world.namespace, before[0]["metadata"]["name"])
    mixed = {"metadata": {"finalizers": [FOREIGN, FINALIZER_METERED]}}
    await world.kube.patch(named, mixed)

    code, _ = await clean_up(account, "--watch-namespace", world.namespace)
    assert code == 0

    after = await world.pods()
    assert await finalizers(world) == [[FOREIGN], []]
    assert [p["metadata"]["uid"] for p in after] == [p["metadata"]["uid"] for p in before]
    assert {pod["status"]["phase"] for pod in after} == {"Running"}
    assert (await world.job())["status"]["phase"] == "Running"
    again = await clean_up(account, "--watch-namespace", world.namespace)
    assert again == (0, f"{WATCHING}\nno pod waits for spotrun\n")


async def test_a_deleted_job_that_a_spend_limit_kept_goes_away(
    abandoned: World, account: Path
) -> None:
    world = abandoned
    await world.kube.patch(world.jobs("job"), {"metadata": {"finalizers": [str(FINALIZER_SPEND)]}})
    await world.kube.delete(world.jobs("job"))
    assert "deletionTimestamp" in (await world.job())["metadata"]

    code, said = await clean_up(account, "--watch-namespace", world.namespace)
    assert code == 0
    assert f"{world.namespace}/job: released, no SpendLimit counts it any more" in said
    await world.kube.until(world.jobs(), "job", lambda one: one is None)
    await world.until_no_pods()


async def test_another_namespace_is_left_alone(abandoned: World, account: Path) -> None:
    code, _ = await clean_up(account, "--watch-namespace", "default")

    assert code == 0
    assert await finalizers(abandoned) == [[FINALIZER_METERED]] * 2


async def test_nothing_is_done_while_an_operator_leads(
    world: World, operator: Launcher, account: Path
) -> None:
    await world.nodes.add("a", capacity=ROOM)
    replica = await operator.start()
    await world.create_job(workers={"min": 2, "max": 2, "replicas": 2})
    await world.until_phase("Running")

    code, said = await clean_up(account)

    assert code == 1
    assert "an operator is the leader in the namespace spotrun-system and would create" in said
    assert replica.at.host in said
    assert await finalizers(world) == [[FINALIZER_METERED]] * 2
    await replica.stop()


async def test_missing_rights_are_named(abandoned: World, account: Path) -> None:
    code, said = await clean_up(account, "--stop-deployment", "spotrun")

    assert code == 1
    assert 'cannot patch resource "deployments/scale"' in said
    assert "it needs the rights" in said


async def test_a_deployment_is_stopped_first(abandoned: World, account: Path) -> None:
    """As an admin; in `tests/integration/chart` it is the hook that does it."""
    world = abandoned
    labels = {"app": "operator"}
    container = {"name": "operator", "image": "x"}
    deployment = {
        "metadata": {"name": "operator"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    where = at("deployments", world.namespace, group="apps/v1")
    await world.kube.create(where, deployment)

    admin = world.cluster.kubeconfig
    code, said = await clean_up(
        admin, "--namespace", world.namespace, "--stop-deployment", "operator"
    )

    assert code == 0
    assert said.startswith(f"stopping deployment/operator in {world.namespace}\n")
    stopped = await world.kube.get(f"{where}/operator")
    assert stopped["spec"]["replicas"] == 0
    assert await finalizers(world) == [[], []]
