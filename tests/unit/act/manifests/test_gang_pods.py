"""The pods of a gang are those that `worker_pod` makes one by one."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.act.manifests import gang_pods
from spotrun.act.manifests.gang_pods import GangPods
from spotrun.act.manifests.worker_pod import worker_pod
from spotrun.act.manifests.worker_settings import Settings
from spotrun.api.capacitypool import Capacity
from spotrun.state.actions import Create, Placed
from spotrun.state.snapshot import JobSnapshot
from tests.support.jobs.builders import a_job

SETTINGS = Settings(server="sync.spotrun-system:9443", ca_pem="PEM", inject_image="package:1")
SIDECAR = {"name": "sidecar", "image": "logs:1", "env": [{"name": "SPOTRUN_WORKER", "value": "my"}]}
TRAINER = {
    "name": "trainer",
    "image": "train:1",
    "env": [{"name": "RUN", "value": "$(SPOTRUN_WORKER)"}],
}

PLACES = st.sampled_from((Placed(), Placed(capacity=Capacity.SPOT), Placed(zone="a")))
WORKERS = st.lists(
    st.builds(
        Create,
        st.integers(min_value=0, max_value=10_000),
        avoid_nodes=st.sampled_from(((), ("node-1",))),
        place=PLACES,
        slot=st.integers(min_value=0, max_value=3),
        replica=st.sampled_from((None, 0, 1)),
        lent=st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


def job_of(per_replica: int) -> JobSnapshot:
    template = {"spec": {"containers": [SIDECAR, TRAINER]}}
    sizes = {"min": 4, "max": 8, "perReplica": per_replica}
    placement = {"lend": {"priorityClassName": "low"}} if per_replica == 1 else {}
    return a_job(4, template=template, placement=placement, **sizes).snapshot()


JOBS = {number: job_of(number) for number in (1, 4)}


@given(WORKERS, st.sampled_from(sorted(JOBS)))
def test_each_pod_is_the_one_that_is_made_alone(workers: list[Create], per_replica: int) -> None:
    pods = GangPods(JOBS[per_replica], SETTINGS)
    made = [pods.manifest(worker) for worker in workers]
    assert made == [worker_pod(JOBS[per_replica], worker, SETTINGS) for worker in workers]


def test_a_pod_stays_as_it_was_when_others_are_made() -> None:
    pods = GangPods(JOBS[4], SETTINGS)
    first = pods.manifest(Create(0))
    before = copy.deepcopy(first)
    pods.manifest(Create(1, slot=1))
    assert first == before


def test_a_place_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(job: JobSnapshot, worker: Create, settings: Settings) -> dict[str, Any]:
        asked.append(worker.worker_id)
        return worker_pod(job, worker, settings)

    monkeypatch.setattr(gang_pods, "worker_pod", counted)
    pods = GangPods(JOBS[1], SETTINGS)
    spot = Placed(capacity=Capacity.SPOT)
    for number in range(4):
        pods.manifest(Create(number, place=spot if number % 2 else Placed()))
    assert asked == [0, 1]
