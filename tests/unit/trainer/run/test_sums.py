"""What scripts add up themselves: in steps by run.sum, and several metrics of an evaluation."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from spotrun.wire import How
from spotrun_trainer import Run
from spotrun_trainer.loop.evaluation.metrics import Metric, Totals
from tests.support.processes.trainer_world import Ended, run_alone, run_world
from tests.unit.trainer.run.elastic import Jobs, die, this_is
from tests.unit.trainer.run.scripts import CLASSES, FEATURES, SAMPLES, dataset
from tests.unit.trainer.run.sharded import Part, Sharded
from tests.unit.trainer.run.test_worlds_amid import DieAt, Incident, before_commits

TOTAL, GLOBAL_BATCH = 6, 16


@dataclass(frozen=True)
class DieAmid:
    """A worker dies in a microbatch of a step, after it has counted it."""

    worker: str

    def __call__(self, step: int, count: int) -> None:
        if this_is(self.worker) and (step, count) == (3, 1):
            die()


Counts = list[list[float]]


def counted(amid: DieAmid | None = None, incident: Incident | None = None) -> Counts:
    """By step: how many samples were seen, how many of the first class, and a sum of features."""
    if incident is not None:
        before_commits(incident)
    run = Run(1, deterministic=True)
    model = run.prepare(nn.Linear(FEATURES, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run.track(model=model, optimizer=optimizer)
    found = []
    names = ("seen", "first", "features")
    for step in run.steps(
        dataset(), global_batch=GLOBAL_BATCH, microbatch=2, total=TOTAL, num_workers=0, sums=names
    ):
        with step:
            for count, (x, y) in enumerate(step):
                step.backward(functional.cross_entropy(model(x), y), mean_of=len(y))
                run.sum(seen=len(y), first=(y == 0).sum())
                run.sum(features=x.sum())
                if amid is not None:
                    amid(step.number, count)
            step.update(optimizer)
            found.append([float(step.sums[name]) for name in names])
    return found


def test_what_a_script_sums_up_is_of_every_sample_once_and_the_same_everywhere() -> None:
    alone: Counts = run_alone(counted).value
    assert [seen for seen, _, _ in alone] == [GLOBAL_BATCH] * TOTAL
    assert sum(first for _, first, _ in alone) == (dataset().tensors[1] == 0).sum()  # one epoch
    for size in (2, 9):  # some of nine have no microbatch
        for ended in run_world(size, counted):
            assert ended.error == "", ended.said
            assert ended.value == alone  # bit by bit


def test_nothing_is_counted_twice_where_a_worker_is_lost_amid_a_step(jobs: Jobs) -> None:
    job = jobs.start(counted, DieAmid("b"), workers="abc")
    job.until_dead("b")
    job.bring_in(How.ABORT, *"anc")
    joining_worker, *others = job.ended(*"nac")
    check(joining_worker, others)


def test_nothing_is_counted_twice_where_a_worker_is_lost_at_its_commit(jobs: Jobs) -> None:
    job = jobs.start(counted, None, DieAt("a", 4), workers="abc")
    job.until_dead("a")
    job.bring_in(How.ABORT, *"bnc")
    joining_worker, *others = job.ended(*"nbc")
    check(joining_worker, others)


def check(joining_worker: Ended, others: list[Ended]) -> None:
    alone: Counts = run_alone(counted).value
    for ended in others:
        assert ended.error == "", ended.said
        assert ended.value == alone
    assert joining_worker.error == "", joining_worker.said
    assert joining_worker.value == alone[-len(joining_worker.value) :]


def several(model: nn.Module, batch: list[Tensor]) -> dict[str, Metric]:
    x, y = batch
    out = model(x)
    hits = (out.argmax(1) == y).sum()
    loss = functional.cross_entropy(out, y)
    return {"loss": loss, "accuracy": (hits, len(y)), "hits": (hits, None), "none": (hits, 0)}


def evaluated(shards: int = 1) -> list[dict[str, float]]:
    run = Run(1, shards=shards)
    torch.manual_seed(1)
    shard = torch.distributed.get_rank() if shards > 1 else 0
    model = run.prepare(Part(shard, shards))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run.track(model=model, optimizer=optimizer)
    found = []
    for step in run.steps(dataset(), global_batch=16, microbatch=2, total=3, num_workers=0):
        with step:
            for x, y in step:
                step.backward(functional.cross_entropy(model(x), y), mean_of=len(y))
            step.update(optimizer)
        if run.every(1):
            metrics = run.evaluate(model, dataset(), several, microbatch=40)
            found.append({name: round(value, 6) for name, value in metrics.items()})
            run.log(**metrics)
    return found


@pytest.mark.parametrize(("size", "shards"), [(2, 1), (5, 1), (4, Sharded.shards)])
def test_an_evaluation_has_several_metrics_of_one_pass(size: int, shards: int) -> None:
    (*_, last) = alone = run_alone(evaluated).value
    assert list(last) == ["loss", "accuracy", "hits", "none"]
    assert last["accuracy"] == pytest.approx(last["hits"] / SAMPLES, abs=1e-6)
    assert last["hits"] == int(last["hits"]) > 0
    for ended in run_world(size, evaluated, shards):  # with five, some have no batch at all
        assert ended.error == "", ended.said
        assert ended.value == [pytest.approx(each, abs=1e-5, nan_ok=True) for each in alone]


def test_a_mean_in_half_precision_does_not_overflow_where_it_is_summed_up() -> None:
    totals = Totals(torch.device("cpu"))
    for _ in range(2):
        totals.add(torch.tensor(2000, dtype=torch.float16), 64)
    assert totals.results(totals.numbers(), copies=1) == 2000


def test_each_evaluation_has_its_line_however_quickly_they_follow() -> None:
    said = run_world(2, evaluated)[0].said
    assert [line[:6] for line in said.splitlines() if "accuracy" in line] == [
        "step 1",
        "step 2",
        "step 3",
    ]


def test_metrics_that_not_all_batches_have_are_refused() -> None:
    ended = run_alone(forgetful)
    assert "got different metrics for some batches than for others (odd)" in ended.error


def forgetful() -> None:
    run, calls = Run(1), 0
    model = run.prepare(nn.Linear(FEATURES, 1))

    def metrics(_model: nn.Module, batch: list[Tensor]) -> dict[str, Metric]:
        nonlocal calls
        calls += 1
        loss = batch[0].mean()
        return {"loss": loss, "odd": loss} if calls % 2 else {"loss": loss}

    run.evaluate(model, dataset(), metrics, microbatch=40)
