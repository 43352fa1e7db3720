"""Whatever the API documents is written by somebody: fields, columns, conditions and reasons."""

import re
from typing import Any

import pytest

from spotrun.api import names
from spotrun.api.capacitypool import CapacityPool
from spotrun.api.crd import KINDS
from spotrun.api.model import Model
from spotrun.api.names import Choice, ConditionType, Name, Phase, Reason, ScalingReason, SuspendedBy
from spotrun.api.spec.spend_limit import SpendLimit
from spotrun.api.trainingjob import TrainingJob
from spotrun.api.tuning.tuningjob import TuningJob
from spotrun.api.tuning.words import TuningReason
from spotrun.state.queue import Queue
from spotrun.state.sizes import Order, Precedence
from spotrun.state.snapshot import PodPhase, SpendVerdict
from spotrun.wire import Ending
from tests.support.api.field_writers import Code, Module, models
from tests.support.jobs.builders import ON_CLAIM, JobBuilder, a_job, an_end, later
from tests.support.money.priced_nodes import at_work
from tests.unit.policies.scaling.test_idle import an_idle_job

# Codecs write every field, whether anybody has ever said anything there or not.
CODECS = (
    "state/codec.py",
    "state/stored/failures_codec.py",
    "state/stored/cost_codec.py",
    "state/stored/scaling_codec.py",
    "state/stored/statements_codec.py",
    "state/stored/training_codec.py",
    "state/stored/workers_codec.py",
    "state/stored/pools/pool_codec.py",
    "policies/tuning/codec.py",
    "policies/budget/spend/codec.py",
)
DECIDING = Code.within("policies", "state", "money", "act", "observe").without(*CODECS)
ALL = Code.within("")


def part(kind: type[Model], name: str) -> type[Model]:
    """The model of a kind's spec or status."""
    (found,) = (m for m in models(kind) if m.__name__ == f"{kind.__name__}{name}")
    return found


def fields(root: type[Model]) -> list[tuple[str, str]]:
    return [(model.__name__, name) for model in models(root) for name in model.model_fields]


STATUS = [one for kind in (TrainingJob, CapacityPool) for one in fields(part(kind, "Status"))]
SPEC = [
    one
    for kind in (TrainingJob, CapacityPool, TuningJob, SpendLimit)
    for one in fields(part(kind, "Spec"))
]


HANDED_ON = {"Container", "Volume", "EmptyDir", "Csi"}
"""Models that are put into pods as they are: their fields are Kubernetes' own."""
IN_STATE = {
    "TrainingJobStatus": "JobState",
    "ScalingStatus": "ScalingState",
    "Resize": "SizeChange",
    "CheckpointStatus": "AcknowledgedCheckpoint",
    "StageStatus": "StageState",
    "WorkersStatus": "WorkerCounts",
    "GivesWay": "GivenWay",
    "Decision": "RecordedDecision",
    "CapacityPoolStatus": "PoolState",
    "Price": "NodePrice",
    "TuningJobStatus": "TuningState",
    "TrialCounts": "Counts",
    "BestTrial": "Best",
    "SpendLimitStatus": "SpendState",
    "SpendCounts": "SpendState",
}
"""The classes as which decisions carry a model."""
NAMED_IN_STATE: dict[tuple[str, str], str] = {
    ("World", "active"): "is_active",
    ("World", "planned"): "is_planned",
    ("StageStatus", "stop_when"): "course",
    ("Orders", "time"): "asked_at",
    ("Restarts", "last_world_number"): "last_world",
    ("HeldBack", "world_number"): "world",
    ("Mark", "step"): "steps",
    ("Price", "stale"): "is_stale",
    **{("StorageSums", f"{kind}_usd"): "usd" for kind in ("stored", "requests", "transfer")},
    **{("StorageSums", kind): "counted" for kind in ("puts", "gets", "moved_bytes")},
    **{
        ("StorageSums", f"unpriced_{kind}"): "unpriced"
        for kind in ("gb_hours", "puts", "gets", "moved_bytes")
    },
    ("TrialCounts", "summary"): "most",
}
"""The names that fields of models have there, where these are others."""


def is_written(model: str, name: str, code: Code = DECIDING) -> bool:
    owners = {owner for owner, one in STATUS if one == name}
    field = NAMED_IN_STATE.get((model, name), name)
    return code.writes(IN_STATE.get(model, model), field, is_unique=owners == {model})


def test_every_field_of_a_status_has_a_writer() -> None:
    assert [one for one in STATUS if not is_written(*one)] == []


def test_every_field_of_a_spec_is_read() -> None:
    ours = [one for one in SPEC if one[0] not in HANDED_ON]
    assert [one for one in ours if not ALL.reads(one[1])] == []


def owner(kind: type[Model], path: str) -> tuple[str, str]:
    """The model and the field at a JSON path."""
    model, name = kind, ""
    for step in path.strip(".").split("."):
        names_of = {info.alias or key: key for key, info in model.model_fields.items()}
        names_of |= {_camel(key): key for key in model.model_fields}
        owner_of, name = model, names_of[step]
        inner = list(models_in(model, name))
        model = inner[0] if inner else model
    return owner_of.__name__, name


def models_in(model: type[Model], name: str) -> list[type[Model]]:
    """The models that a field holds, itself left out."""
    alone = type(
        "Alone", (Model,), {"__annotations__": {name: model.model_fields[name].annotation}}
    )
    return list(models(alone))[1:]


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name)


@pytest.mark.parametrize("kind", KINDS)
def test_every_column_shows_what_somebody_writes(kind: str) -> None:
    described = KINDS[kind]
    shown = {
        column.name: owner(described.model, column.path)
        for column in described.columns
        if column.path.startswith(".status")
    }
    assert shown
    assert [name for name, field in shown.items() if not is_written(*field)] == []


@pytest.mark.parametrize("reason", [*Reason, *ScalingReason, *TuningReason], ids=str)
def test_every_reason_is_given_by_somebody(reason: Choice) -> None:
    assert DECIDING.says(reason)


@pytest.mark.parametrize("kind", ConditionType, ids=str)
def test_every_condition_is_stated_by_somebody(kind: ConditionType) -> None:
    assert DECIDING.that_call("state", "Condition").says(kind)


BUDGET = {"maxCostUsd": "0.01"}
WINDOWS = {"windows": [{"from": "20:00", "to": "06:00"}]}
HELD = {
    SuspendedBy.USER: (a_job(1, suspend=True), 0.0),
    SuspendedBy.BUDGET: (at_work(a_job(1, budget=BUDGET, checkpoint=ON_CLAIM), 0), 0.0),
    SuspendedBy.SCHEDULE: (a_job(1, schedule=WINDOWS, checkpoint=ON_CLAIM), 0.0),
    SuspendedBy.IDLE: (an_idle_job(), 7200.0),
    SuspendedBy.QUEUE: (a_job(1).with_facts(queue=Queue("team")), 0.0),
    SuspendedBy.SPEND_LIMIT: (a_job(1).with_facts(spend=SpendVerdict("too little left")), 0.0),
    SuspendedBy.PREEMPTION: (
        a_job(1).with_facts(
            precedence=Precedence(order=Order("ns/high", "u", 0, "it lacks nodes"))
        ),
        0.0,
    ),
}


@pytest.mark.parametrize("who", SuspendedBy, ids=str)
def test_whoever_may_hold_a_job_back_does(who: SuspendedBy) -> None:
    job, seconds = HELD[who]
    assert job.status.suspended_by is None
    assert who in (job.decide(later(seconds)).status.suspended_by or ())


LIVES: dict[Phase, JobBuilder] = {
    Phase.PENDING: a_job(1),
    Phase.STARTING: a_job(1).with_worker(0, phase=PodPhase.PENDING),
    Phase.RUNNING: a_job(1).with_worker(0, ready=True),
    Phase.RECOVERING: a_job(1).with_status(phase=Phase.RUNNING).with_worker(0),
    Phase.SUSPENDED: a_job(1, suspend=True),
    Phase.SUCCEEDED: a_job(1).training(0, **an_end(Ending.COMPLETED)),
    Phase.FAILED: a_job(1, deadline={"finishWithin": "1m", "onMissed": "Fail"}),
}


@pytest.mark.parametrize("phase", Phase, ids=str)
def test_every_phase_is_reached(phase: Phase) -> None:
    assert LIVES[phase].status.phase is not phase
    assert LIVES[phase].decide().status.phase is phase


def test_every_name_is_used() -> None:
    ours = {key for key, value in vars(names).items() if isinstance(value, Name)}
    used = [one for path, one in ALL.modules.items() if path != "api/names.py"]
    assert {name for name in ours if not any(name in one.names for one in used)} == set()


def code(source: str) -> Code:
    return Code({"one.py": Module.of(source)})


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ("Progress(step=1, eta=moment)", True),
        ("progress.model_copy(update={'eta': moment})", True),
        ("update['eta'] = moment", True),
        ("replace(progress, eta=moment)", True),
        ("replace(progress, eta=None)", False),
        ("Progress(step=1, total_steps=2)", False),
        ("Progress(step=1, eta=None)", False),
        ("x = progress.eta", False),
        ("if 'eta' in update: pass", False),
    ],
)
def test_a_field_without_a_writer_is_found(source: str, is_found: bool) -> None:
    assert is_written("Progress", "eta", code(source)) is is_found


def test_a_key_that_several_models_have_counts_for_those_that_stand_beside_it() -> None:
    update = "old.model_copy(update={'time': now})"
    assert not is_written("Interruption", "time", code(update))
    assert is_written("Interruption", "time", code(f"old = Interruption()\n{update}"))


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ("state(view, status, kind, Reason.HUNG, message, holds=True)", True),
        ("why = Reason.HUNG if is_late else other", True),
        ("REASONS = {Ending.HUNG: Reason.HUNG}", True),
        ("{'reason': Reason.HUNG.value}", True),
        ("Verdict(Reason.HUNG, 'no step')", True),
        ("holds = {Reason.HUNG: Reason.HUNG in before}", False),
        ("if why is Reason.HUNG: pass", False),
        ("if why in (Reason.HUNG, Reason.DRAINED): pass", False),
        ("QUIET = frozenset({Reason.HUNG})", False),
        ("QUIET = {Reason.HUNG}", False),
        ("find(status, Reason.HUNG)", False),
        ("WORDS[Reason.HUNG]", False),
        ("words = Reason.HUNG.purpose", False),
    ],
)
def test_a_reason_that_nobody_gives_is_found(source: str, is_found: bool) -> None:
    assert code(source).says(Reason.HUNG) is is_found


def test_nothing_here_is_left_to_chance() -> None:
    missing: dict[str, Any] = {"by": {*SuspendedBy} - {*HELD}, "phases": {*Phase} - {*LIVES}}
    assert missing == {"by": set(), "phases": set()}
