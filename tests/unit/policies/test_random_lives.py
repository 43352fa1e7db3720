"""Whatever happens to a job, the rules hold, and once it stops the job is where it should be."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spotrun.api.names import ZONE_LABELS, Phase
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.state.sizes import wanted
from spotrun.state.snapshot import Agent, PodEnd
from spotrun.state.world_members import training, world_number
from spotrun.wire import Ending, Failure, LastWords
from tests.support.jobs.builders import ON_CLAIM, a_spec
from tests.support.lives.simulated_cluster import Cluster, SimPod
from tests.support.lives.zoned_cluster import ZONES, ZonedCluster

MOST_ROUNDS = 600
Fault = Callable[[Cluster, int], None]


def _one(cluster: Cluster, number: int) -> SimPod | None:
    running = [pod for pod in cluster.pods.values() if pod.runs]
    return running[number % len(running)] if running else None


def on_a_worker(fault: Callable[[Cluster, SimPod], None]) -> Fault:
    def apply(cluster: Cluster, number: int) -> None:
        pod = _one(cluster, number)
        if pod is not None:
            fault(cluster, pod)

    apply.__name__ = fault.__name__
    return apply


@on_a_worker
def crash_a_pod(cluster: Cluster, pod: SimPod) -> None:
    pod.end = PodEnd(exit_code=1, words=LastWords(Ending.FAILED, exit_code=1))


@on_a_worker
def crash_beside_a_container(cluster: Cluster, pod: SimPod) -> None:
    pod.end, pod.has_company = PodEnd(exit_code=137, container_reason="OOMKilled"), True


@on_a_worker
def reject_a_pod(cluster: Cluster, pod: SimPod) -> None:
    """As a kubelet does that has started again: then also of those who trained."""
    pod.end = PodEnd(pod_reason="UnexpectedAdmissionError", pod_message="no healthy devices")


@on_a_worker
def fail_a_process(cluster: Cluster, pod: SimPod) -> None:
    if pod.arrived:
        pod.failed, pod.step = Failure(pod.arrived, 1, "error"), None
        pod.ready_at = cluster.now + timedelta(seconds=3)


@on_a_worker
def cut_off_a_node(cluster: Cluster, pod: SimPod) -> None:
    pod.silent_since = cluster.now
    node = cluster.nodes[pod.node or ""]
    cluster.nodes[node.name] = replace(node, ready=False, unreachable_at=cluster.now)


@on_a_worker
def silence_a_worker(cluster: Cluster, pod: SimPod) -> None:
    pod.silent_since = cluster.now


@on_a_worker
def lose_a_node(cluster: Cluster, pod: SimPod) -> None:
    pod.silent_since = cluster.now
    node = cluster.nodes[pod.node or ""]
    cluster.nodes[node.name] = replace(node, gone=True)


@on_a_worker
def give_notice(cluster: Cluster, pod: SimPod) -> None:
    node = cluster.nodes[pod.node or ""]
    leaves_at = cluster.now + timedelta(seconds=15 if pod.worker_id % 2 else 120)
    cluster.nodes[node.name] = replace(node, leaves_at=leaves_at)


@on_a_worker
def take_notice_back(cluster: Cluster, pod: SimPod) -> None:
    node = cluster.nodes[pod.node or ""]
    cluster.nodes[node.name] = replace(node, leaves_at=None)


@on_a_worker
def delete_a_pod(cluster: Cluster, pod: SimPod) -> None:
    cluster.delete(pod.worker_id)


@on_a_worker
def make_a_pod_vanish(cluster: Cluster, pod: SimPod) -> None:
    del cluster.pods[pod.worker_id]


@on_a_worker
def keep_a_worker_from_arriving(cluster: Cluster, pod: SimPod) -> None:
    pod.stuck = True


@on_a_worker
def commit_a_checkpoint(cluster: Cluster, pod: SimPod) -> None:
    if pod.step is not None and pod.worker_id in training(cluster.status):
        pod.committed = f"step-{pod.step}.g{pod.state_world}"


def suspend_or_resume(cluster: Cluster, number: int) -> None:
    cluster.spec = cluster.spec.model_copy(update={"suspend": not cluster.spec.suspend})
    cluster.spec_generation += 1


def change_replicas(cluster: Cluster, number: int) -> None:
    workers = cluster.spec.workers.model_copy(update={"replicas": number % 7})
    cluster.spec = cluster.spec.model_copy(update={"workers": workers})
    cluster.spec_generation += 1


def change_the_template(cluster: Cluster, number: int) -> None:
    if cluster.spec.suspend or cluster.status.phase is Phase.SUSPENDED:
        cluster.template = f"t{number}"
        cluster.spec_generation += 1


def take_capacity(cluster: Cluster, number: int) -> None:
    cluster.has_capacity = not cluster.has_capacity


def restart_the_operator(cluster: Cluster, number: int) -> None:
    cluster.restart_operator()


def crash_between_writes(cluster: Cluster, number: int) -> None:
    cluster.operate(crash_after=number % 5)


def lag_behind(cluster: Cluster, number: int) -> None:
    """The next decision sees what is now, whatever happens until then but its own writes."""
    cluster.cached = cluster.snapshot()


def pass_time(cluster: Cluster, number: int) -> None:
    cluster.now += timedelta(seconds=(0.1, 0.5, 3, 20, 70, 400, 4000)[number % 7])


def operate(cluster: Cluster, number: int) -> None:
    cluster.operate()


def live_on(cluster: Cluster, number: int) -> None:
    """Some quiet time, in which the job gets somewhere."""
    for _ in range(4 + number):
        cluster.live()
        cluster.operate()
        cluster.now += timedelta(seconds=0.7)


FAULTS: tuple[Fault, ...] = (
    crash_a_pod,
    crash_beside_a_container,
    reject_a_pod,
    fail_a_process,
    cut_off_a_node,
    silence_a_worker,
    lose_a_node,
    give_notice,
    take_notice_back,
    delete_a_pod,
    make_a_pod_vanish,
    keep_a_worker_from_arriving,
    commit_a_checkpoint,
    suspend_or_resume,
    change_replicas,
    change_the_template,
    take_capacity,
    restart_the_operator,
    crash_between_writes,
    lag_behind,
    pass_time,
    operate,
    live_on,
)

CRASHES = frozenset({crash_a_pod, crash_beside_a_container, fail_a_process})

LIVES = st.lists(
    st.tuples(st.sampled_from((*FAULTS, live_on, live_on, live_on)), st.integers(0, 20)),
    max_size=30,
)
SPECS = st.builds(
    lambda small, more, extra, per_replica, checkpoint: a_spec(
        per_replica * (small + more),
        min=per_replica * small,
        max=per_replica * (small + more + extra),
        perReplica=per_replica,
        failures={"maxRestarts": 1000},
        **({"checkpoint": ON_CLAIM} if checkpoint else {}),
    ),
    st.integers(1, 3),
    st.integers(0, 3),
    st.integers(0, 2),
    st.sampled_from((1, 1, 2, 3)),
    st.booleans(),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(SPECS, st.booleans(), LIVES)
def test_rules_hold_in_every_life_and_it_ends_well(
    spec: TrainingJobSpec, in_process: bool, life: list[tuple[Fault, int]]
) -> None:
    live(spec, in_process=in_process, life=life)


def fill_a_zone(cluster: Cluster, number: int) -> None:
    if isinstance(cluster, ZonedCluster):
        cluster.full ^= {ZONES[number % len(ZONES)]}


REPLICAS = st.builds(
    lambda per_replica, small, more, base, topology: a_spec(
        per_replica * (small + more),
        min=per_replica * small,
        max=per_replica * (small + more),
        perReplica=per_replica,
        failures={"maxRestarts": 1000},
        checkpoint=ON_CLAIM,
        placement={
            "onDemandBase": base,
            "giveBackAfter": "1000h",
            "replicaTopology": {topology: ZONE_LABELS[0]},
        },
    ),
    st.sampled_from((2, 3)),
    st.integers(1, 2),
    st.integers(0, 2),
    st.integers(0, 2),
    st.sampled_from(("preferred", "required")),
)
QUIET = frozenset(
    {
        commit_a_checkpoint,
        suspend_or_resume,
        change_replicas,
        change_the_template,
        crash_between_writes,
        lag_behind,
        restart_the_operator,
        pass_time,
        operate,
        live_on,
    }
)
"""The faults that take no worker away, nor keep one from coming."""
LIVES_IN_ZONES = st.lists(
    st.tuples(
        st.sampled_from((*FAULTS, *(fill_a_zone,) * 3, *(live_on, pass_time) * 6)),
        st.integers(0, 20),
    ),
    min_size=6,
    max_size=30,
)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=25)
@given(REPLICAS, st.booleans(), LIVES_IN_ZONES)
def test_no_replica_comes_apart_unless_something_was_lost(
    spec: TrainingJobSpec, in_process: bool, life: list[tuple[Fault, int]]
) -> None:
    live(spec, in_process=in_process, life=life, is_zoned=True)


def live(
    spec: TrainingJobSpec,
    *,
    in_process: bool,
    life: list[tuple[Fault, int]],
    is_zoned: bool = False,
) -> None:
    cluster = (ZonedCluster if is_zoned else Cluster)(spec, in_process=in_process)
    for fault, number in life:
        if isinstance(cluster, ZonedCluster):
            cluster.has_lost |= fault not in QUIET
            cluster.has_lacked |= fault in {fill_a_zone, take_capacity}
        fault(cluster, number)
        cluster.live()
        cluster.check_books()
        cluster.operate()
        cluster.check_books()
    heal(cluster)
    settle_down(cluster)
    expect_the_wanted_state(cluster)
    crashes = sum(fault in CRASHES for fault, _ in life)
    assert num_failures(cluster) <= crashes, "none is counted twice, and nothing else as one"


def num_failures(cluster: Cluster) -> int:
    return cluster.status.restarts.count


def heal(cluster: Cluster) -> None:
    """Faults stop: what is cut off is gone for good, the rest is well."""
    cluster.has_capacity = True
    if isinstance(cluster, ZonedCluster):
        cluster.full.clear()
    for pod in cluster.pods.values():
        if pod.silent_since is not None and pod.node is not None:
            cluster.nodes[pod.node] = replace(cluster.nodes[pod.node], gone=True)


def settle_down(cluster: Cluster) -> None:
    """Decide on news and when time is up, as the work queue would, until nothing happens."""
    facts, quiet_since, cluster.makes_steps = "", cluster.now, False
    for _ in range(MOST_ROUNDS):
        cluster.live()
        seen = repr([(w.pod, w.node, _facts(w.agent)) for w in cluster.snapshot().workers])
        if seen != facts:
            facts, quiet_since = seen, cluster.now
        before = cluster.writes
        decision = cluster.operate()
        if cluster.writes != before:
            quiet_since = cluster.now
            continue
        if cluster.now - quiet_since > timedelta(minutes=30):
            return
        waits = [timedelta(seconds=min(decision.wake_after_seconds, 10_000))]
        if (event := cluster.next_event()) is not None:
            waits.append(event - cluster.now)
        cluster.now += max(min(waits), timedelta(milliseconds=10))
    raise AssertionError(f"no rest after {MOST_ROUNDS} rounds: {cluster.status}")


def _facts(agent: Agent | None) -> object:
    if agent is None:
        return None
    report = agent.report
    return (report.ready, report.arrived, report.failed, report.suspects, report.committed)


def expect_the_wanted_state(cluster: Cluster) -> None:
    status = cluster.status
    if cluster.spec.suspend:
        assert status.phase is Phase.SUSPENDED, status
        assert not any(pod.runs for pod in cluster.pods.values())
        return
    assert status.phase is Phase.RUNNING, status
    assert len(training(status)) == wanted(cluster.spec.workers), status
    assert cluster.formed == world_number(status), "it trains"
    living = {
        worker_id for worker_id, pod in cluster.pods.items() if pod.runs and not pod.killed_at
    }
    assert living == set(training(status)), "and nobody else is there"
