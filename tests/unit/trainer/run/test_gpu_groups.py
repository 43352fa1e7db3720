"""Groups of processes with GPUs, as far as they can be tried without one, and with one."""

import os
import signal
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch._C._distributed_c10d import ErrorType
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # not in __all__

from spotrun.wire import How
from spotrun_trainer.elastic.connections import Connections
from spotrun_trainer.elastic.errors import PeerLostError
from spotrun_trainer.elastic.pending_collectives import Pending, Work
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.rank_info import RankInfo
from spotrun_trainer.elastic.store_rendezvous import Backend, meet
from spotrun_trainer.loop.loop import Loop
from spotrun_trainer.process.device import default_device, put
from spotrun_trainer.run import Run
from spotrun_trainer.step.buffers import Buffers
from spotrun_trainer.step.reduce.bucket import Bucket
from spotrun_trainer.step.totals import Sums
from tests.support.gpu import one_gpu
from tests.support.processes.trainer_world import run_alone, run_world
from tests.unit.trainer.run.elastic import Jobs, die, this_is
from tests.unit.trainer.run.scripts import Plan, train, train_until_it_breaks


@dataclass
class Nccl:
    """A work of NCCL, and the group that has begun it, as they are once it has failed, or not.

    torch calls a work completed that has failed, and its first wait only orders streams.
    """

    says_so: bool = False  # to who waits again
    error: ErrorType = ErrorType.SUCCESS
    waits: int = 0

    def wait(self) -> bool:
        self.waits += 1
        if self.says_so and self.waits > 1:
            raise RuntimeError("NCCL error: remote process exited\nand a stack")
        return True

    def is_completed(self) -> bool:
        return True

    def get_error(self) -> ErrorType:
        return self.error


@pytest.mark.parametrize(
    ("failed", "said"),
    [
        (Nccl(says_so=True), "a peer is gone: NCCL error: remote process exited"),
        (Nccl(error=ErrorType.COMM_ERROR), "a peer is gone: NCCL says COMM_ERROR"),
    ],
)
def test_a_collective_of_nccl_that_has_failed_is_no_success(failed: Nccl, said: str) -> None:
    with pytest.raises(PeerLostError) as raised:
        Work(failed, Connections(), on_gpu_by=failed).wait()
    assert str(raised.value) == said


def test_a_collective_of_nccl_that_has_not_failed_is_one() -> None:
    Work(Nccl(), Connections(), on_gpu_by=Nccl()).wait()


def end_early(run: Run, step: int, count: int) -> None:
    """On rank 1 the commit of the third step ends without the others' share, and without error."""
    if (run.rank, step, count) != (1, 3, -1):
        return
    whole = Group.all_reduce

    def all_reduce(group: Group, tensor: Tensor) -> Pending:
        if tensor.dtype != torch.float64:
            return whole(group, tensor)
        Group.all_reduce = whole  # type: ignore[method-assign]
        return whole(group, tensor.clone())

    Group.all_reduce = all_reduce  # type: ignore[method-assign,assignment]


def test_a_commit_that_lacks_a_share_is_none() -> None:
    steps, error, _ = run_world(2, train_until_it_breaks, Plan(nuisance=end_early))[1].value
    assert (steps, error) == (2, "only 1 of 2 processes took part in a sum")


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        ((None, None), [Backend.GLOO] * 2),
        (("a", "b"), [Backend.NCCL] * 2),
        (("a", "b", "c"), [Backend.NCCL] * 3),
        (("a", "b", "a"), [Backend.GLOO] * 3),
    ],
    ids=["no GPUs", "a GPU each", "three", "two share one"],
)
def test_processes_speak_by_nccl_if_each_has_a_gpu_of_its_own(
    gpus: tuple[str | None, ...], expected: list[Backend]
) -> None:
    assert meeting(gpus) == expected


@pytest.mark.parametrize("gpus", [("a", None), (None, "a", "b")])
def test_processes_of_which_only_some_have_a_gpu_are_refused(gpus: tuple[str | None, ...]) -> None:
    for one in meeting(gpus):
        assert "some processes of this world compute on a GPU and some on the CPU" in str(one)


def meeting(gpus: tuple[str | None, ...]) -> list[Backend | Exception]:
    """What each of them finds out, where all meet in one store."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    rank_info = RankInfo(size=len(gpus), store=("127.0.0.1", store.port), world_number=1)
    found: dict[int, Backend | Exception] = {}

    def arrive(rank: int) -> None:
        try:
            _, found[rank] = meet(replace(rank_info, rank=rank), 20.0, lambda: None, gpus[rank])
        except ValueError as error:
            found[rank] = error

    threads = [threading.Thread(target=arrive, args=(rank,)) for rank in range(len(gpus))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[rank] for rank in range(len(gpus))]


@dataclass(frozen=True)
class DieOnNccl:
    """All take their group for one of NCCL; worker c dies, and who waits for a world counts."""

    folder: Path

    def __call__(self, _run: Run, step: int, _count: int) -> None:
        wait = Loop.wait
        Group.is_nccl = property(lambda group: group.size > 1, lambda *_: None)  # type: ignore[assignment]
        Group._begin = begin_on_host  # type: ignore[method-assign,assignment]

        def counting(loop: Loop) -> None:
            with (self.folder / f"{os.environ['SPOTRUN_WORKER']}.waits").open("a") as waits:
                waits.write(".")
            wait(loop)

        Loop.wait = counting  # type: ignore[method-assign,assignment]
        if step == 3 and this_is("c"):
            die()


def begin_on_host(group: Group, collective: object, _tensor: Tensor | None = None) -> Pending:
    """What carries it is gloo after all."""
    return WHOLE_BEGIN(group, collective)  # type: ignore[arg-type]


WHOLE_BEGIN = Group._begin


@pytest.mark.parametrize("is_told_before", [True, False], ids=["told before", "told after"])
def test_who_has_left_a_broken_world_of_nccl_enters_no_other_one(
    jobs: Jobs, tmp_path: Path, is_told_before: bool
) -> None:
    job = jobs.start(train, Plan(total=9, nuisance=DieOnNccl(tmp_path)), workers="abc")
    job.until_dead("c")
    if is_told_before:  # as where the pod's loss is seen before anybody says that the world broke
        job.publish(How.ABORT, "a", "b")
    job.until(lambda: all(job.progress(each).broken == 1 for each in "ab"))
    job.publish(How.ABORT, "a", "b")

    def waits(worker: str) -> int:
        return (tmp_path / f"{worker}.waits").stat().st_size

    for each in "ab":
        before = waits(each)
        job.until(lambda each=each, before=before: waits(each) > before + 3)  # type: ignore[misc]
        progress = job.progress(each)
        assert (progress.entering, progress.world_number, progress.in_process) == (1, 1, False)


def sees_a_gpu() -> tuple[bool, str]:
    return torch.cuda.is_available(), default_device(0).type


def test_where_a_test_is_not_about_gpus_none_is_seen() -> None:
    assert sees_a_gpu() == run_alone(sees_a_gpu).value == (False, "cpu")


@pytest.mark.gpu
def test_where_a_test_is_about_gpus_one_is_seen() -> None:
    assert sees_a_gpu() == run_alone(sees_a_gpu).value == (True, "cuda")


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_bucket_is_completed_while_the_gpu_still_computes() -> None:
    used, unused = (nn.Parameter(torch.zeros(3, device="cuda")) for _ in range(2))
    bucket = Bucket([used, unused])
    for _ in range(2):  # in the first step it is fetched which parameters have gradients
        used.grad = torch.ones(3, device="cuda")
        bucket.drop()
        bucket.take()
        completed = bucket.complete()
        torch.cuda.set_sync_debug_mode("error")
    torch.cuda.set_sync_debug_mode("default")
    assert completed.tolist() == [1, 1, 1, 0, 0, 0, 1, 0]


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_numbers_of_the_host_get_to_a_gpu_while_it_still_computes() -> None:
    gpu = torch.device("cuda", 0)
    sums = Sums(gpu, names=["tokens"])
    buffers = Buffers([])
    torch.cuda.set_sync_debug_mode("error")
    try:
        sums.add(torch.ones((), device=gpu), 3.0)
        sums.add_numbers({"tokens": 7})
        vector = sums.vector(buffers)
        votes = put([1.0, 0.5], gpu)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert (vector.tolist(), votes.tolist()) == ([1, 3, 7], [1, 0.5])


@pytest.mark.gpu(shared=True)
def test_over_nccl_bits_do_not_depend_on_the_number_of_processes() -> None:
    plan = Plan(deterministic=True, with_batch_norm=True, with_dropout=True, clip=0.5)
    alone = run_alone(train, plan)
    assert alone.error == "", alone.said
    for size in (2, 3):
        for one in run_world(size, train, plan, by_rank=one_gpu.neighbours):
            assert one.error == "", one.said
            assert alone.value.digest == one.value.digest


@dataclass(frozen=True)
class DieAmidSums:
    """Rank 1 dies in its third step, before its gradients are sent or after."""

    number: int

    def __call__(self, run: Run, step: int, count: int) -> None:
        if (run.rank, step, count) != (1, 3, -1):
            return
        whole, seen = Group.all_reduce, 0

        def all_reduce(group: Group, tensor: Tensor) -> Pending:
            nonlocal seen
            seen += 1
            if seen == self.number:
                die()
            return whole(group, tensor)

        Group.all_reduce = all_reduce  # type: ignore[method-assign,assignment]


@pytest.mark.gpu(shared=True)
@pytest.mark.parametrize("number", [1, 2])
def test_over_nccl_who_is_left_has_all_of_a_step_or_nothing_of_it(number: int) -> None:
    plan = Plan(total=5, nuisance=DieAmidSums(number))
    after = [run_alone(train, Plan(total=total)).value.weights for total in (2, 3)]
    survivor, _ = run_world(2, train_until_it_breaks, plan, by_rank=one_gpu.neighbours)
    assert survivor.error == "", survivor.said
    steps, error, weights = survivor.value
    assert error.startswith("a peer is gone")
    torch.testing.assert_close(weights, after[steps - 2], rtol=1e-4, atol=1e-4)


@pytest.mark.gpu(shared=True)
def test_over_nccl_a_training_grows_and_shrinks_and_has_its_bits(jobs: Jobs) -> None:
    job = jobs.start(train, Plan(total=100_000, with_batch_norm=True), workers=())

    def grow(*members: str) -> None:
        job.publish(How.BOUNDARY, *members, switch=len(members) == 1)
        job.start(members[-1], env=one_gpu.neighbours(len(members)))
        job.until(lambda: job.progress(members[-1]).ready)
        job.switch()
        job.until(lambda: all(trains(each) for each in members))

    def trains(worker: str) -> bool:
        progress = job.progress(worker)
        return progress.world_number == job.world_number and progress.step > 0

    grow("a")
    grow("a", "b")
    grow("a", "b", "c")
    job.publish(How.BOUNDARY, "a", "c")
    job.until(lambda: all(trains(each) for each in "ac"))
    before = job.progress("a").step
    job.until(lambda: job.progress("a").step > before + 100)  # and weights are compared
    job.signal("c", signal.SIGKILL)
    job.until(lambda: job.progress("a").broken == job.world_number)
    assert not job.progress("a").in_process
