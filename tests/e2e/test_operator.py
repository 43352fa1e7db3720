"""The operator in its pods: real Leases, real tokens of real kubelets."""

import time

import pytest

from devcluster.client import Manifest
from tests.e2e import jobs
from tests.e2e.operator_pods import kill_leader, leader
from tests.e2e.site import Site, is_whole
from tests.integration.trainer.traces import differences
from tests.support.jobs.statuses import failures_of

pytestmark = pytest.mark.calm

ASK = """
import pathlib, ssl, sys, urllib.error, urllib.request
token = pathlib.Path('/token/token').read_text()
request = urllib.request.Request(sys.argv[1], headers={'Authorization': 'Bearer ' + token})
try:
    urllib.request.urlopen(request, context=ssl._create_unverified_context())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


async def test_a_training_does_not_notice_that_each_replica_is_killed(
    site: Site, alone: dict[int, str]
) -> None:
    await site.start_run()
    await site.until_trains(2)
    before = await site.until(is_whole)

    for _ in range(2):
        await kill_leader(site.cluster, site.kube)

    killed_at = time.time()
    await site.until_trains(2, since=killed_at)
    after = await site.status()
    assert after["world"]["number"] == before["world"]["number"]
    assert failures_of(after) == 0
    lines = await site.trace()
    for rank in (0, 1):
        steps = [line["step"] for line in lines if line["rank"] == rank]
        assert steps == list(range(1, len(steps) + 1))
    assert differences(lines, alone) == set()


async def test_a_token_of_another_pod_opens_nothing(site: Site) -> None:
    await site.start_run(workers=1)
    await site.until(is_whole)  # it is ready, and said so with a token that was accepted
    (worker,) = await site.workers()
    path = f"v1/jobs/{site.namespace}/job/workers/{worker['metadata']['name']}/world"
    asked = f"https://{(await leader(site.kube))['status']['podIP']}:8443/{path}"

    await site.apply(stranger(site, asked))
    ended = "--for=jsonpath={.status.phase}=Succeeded"
    await site.kubectl("wait", "pod/stranger", ended, "--timeout=120s")

    said = await site.kubectl("logs", "stranger")
    assert said.startswith("403 ")
    assert "the token does not belong to the pod" in said


def stranger(site: Site, url: str) -> Manifest:
    """A pod of the namespace with a token for the operator, as anybody may have one."""
    token = {"path": "token", "audience": "spotrun.dev"}
    volumes = {"/token": {"projected": {"sources": [{"serviceAccountToken": token}]}}}
    command = ("python3", "-c", ASK, url)
    return jobs.bare_pod("stranger", site.namespace, site.image, *command, volumes=volumes)
