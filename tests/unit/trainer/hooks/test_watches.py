"""What is counted of loops as people write them, with real torch, in the test's own process."""

import atexit
import fcntl
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
import torch
from torch import Tensor, nn
from torch.optim import LBFGS, SGD, AdamW, Optimizer
from torch.utils.data import DataLoader, TensorDataset
from typing_extensions import override

from spotrun_trainer.hooks.python_path import with_site
from spotrun_trainer.hooks.step_counter import StepCounter
from spotrun_trainer.hooks.watches import Watch, watch_optimizers
from spotrun_trainer.process.ipc_files import read_progress
from spotrun_trainer.process.progress_report import TrainerProgress

OPTIMIZERS = importlib.import_module("torch.optim.optimizer")
Loop = Callable[[nn.Module], None]


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    monkeypatch.setenv("SPOTRUN_DIR", str(tmp_path))
    monkeypatch.setenv("SPOTRUN_WORLD_NUMBER", "3")
    monkeypatch.setenv("SPOTRUN_TOTAL_STEPS", "40")
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    watch = Watch()
    end = watch_optimizers(OPTIMIZERS, watch)
    yield watch
    end()
    if watch.reports is not None:
        atexit.unregister(watch.reports.close)  # its folder is gone by then


def loss_of(model: nn.Module) -> Tensor:
    out: Tensor = model(torch.ones(2, 3))
    return out.square().mean()


def backward(model: nn.Module) -> None:
    loss_of(model).backward()  # type: ignore[no-untyped-call]


def gradient_accumulation(model: nn.Module) -> None:
    opt = SGD(model.parameters(), lr=0.1)
    for number in range(1, 21):
        backward(model)
        if number % 4 == 0:
            opt.step()
            opt.zero_grad()


def two_optimizers(model: nn.Module) -> None:
    opts = SGD(model.parameters(), lr=0.1), AdamW(model.parameters(), lr=0.1)
    for _ in range(5):
        for opt in opts:
            backward(model)
            opt.step()


def one_for_each_parameter_in_the_backward_pass(model: nn.Module) -> None:
    opts = {p: SGD([p], lr=0.1) for p in model.parameters()}

    def step(parameter: nn.Parameter) -> None:
        opts[parameter].step()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)  # type: ignore[no-untyped-call]
    for _ in range(5):
        backward(model)


def a_scaler_that_skips(model: nn.Module) -> None:
    opt, scaler = SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu")
    for number in range(7):
        loss = loss_of(model) * (float("inf") if number in {2, 4} else 1.0)
        scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()


def a_compiled_step(model: nn.Module) -> None:
    opt = AdamW(model.parameters(), lr=0.1)
    step = torch.compile(opt.step, backend="eager")
    for _ in range(5):
        backward(model)
        step()


def a_compiled_model(model: nn.Module) -> None:
    compiled = cast("nn.Module", torch.compile(model, backend="eager"))
    opt = AdamW(compiled.parameters(), lr=0.1)
    for _ in range(5):
        backward(compiled)
        opt.step()


def a_new_optimizer_each_time(model: nn.Module) -> None:
    for _ in range(5):
        opt = SGD(model.parameters(), lr=0.1)
        backward(model)
        opt.step()
        del opt


def closures_of_lbfgs(model: nn.Module) -> None:
    opt = LBFGS(model.parameters(), lr=0.1, max_iter=4)

    def closure() -> Tensor:
        opt.zero_grad()
        loss = loss_of(model)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    for _ in range(5):
        opt.step(closure)  # type: ignore[no-untyped-call]


def group_by_group(model: nn.Module) -> None:
    """As DeepSpeed steps an optimizer: its groups are swapped."""
    opt = AdamW([{"params": [parameter]} for parameter in model.parameters()], lr=0.1)
    groups = opt.param_groups
    for _ in range(5):
        backward(model)
        for group in groups:
            opt.param_groups = [group]
            opt.step()
        opt.param_groups = groups


def new_parameters_each_time(model: nn.Module) -> None:
    opt = SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        opt.param_groups[0]["params"] = [nn.Parameter(torch.ones(3))]
        opt.step()


class Wrapping(Optimizer):
    """As ZeroRedundancyOptimizer: an optimizer that steps another one."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model.parameters(), {})
        self.inner = SGD(model.parameters(), lr=0.1)

    @override
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Step the inner one."""
        self.inner.step(closure)


def an_optimizer_in_an_optimizer(model: nn.Module) -> None:
    opt = Wrapping(model)
    for _ in range(5):
        backward(model)
        opt.step()


@pytest.mark.parametrize(
    "loop",
    [
        gradient_accumulation,
        two_optimizers,
        one_for_each_parameter_in_the_backward_pass,
        a_scaler_that_skips,
        a_compiled_step,
        a_compiled_model,
        a_new_optimizer_each_time,
        closures_of_lbfgs,
        an_optimizer_in_an_optimizer,
        group_by_group,
        new_parameters_each_time,
    ],
)
def test_five_steps_of_a_loop_are_five(loop: Loop, watch: Watch, tmp_path: Path) -> None:
    loop(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)))
    assert watch.reports is not None
    watch.reports.close()
    telling = read_progress(tmp_path)
    assert (telling.world_number, telling.step, telling.total) == (3, 5, 40)
    assert telling.step_seconds
    assert not telling.in_process


def test_the_parts_of_a_step_are_told(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spotrun_trainer.telemetry.reporter.CALM_SECONDS", 0.0)
    gradient_accumulation(nn.Linear(3, 1))
    telling = read_progress(tmp_path)
    shares = (telling.compute, telling.data, telling.communicate)
    assert sum(share or 0.0 for share in shares) == pytest.approx(1.0)
    assert telling.utilization.gpu == telling.compute
    assert telling.utilization.memory is not None


def test_a_worker_has_one_who_tells(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spotrun_trainer.telemetry.reporter.CALM_SECONDS", 3600.0)
    gradient_accumulation(nn.Linear(3, 1))
    other = Watch()
    end = watch_optimizers(OPTIMIZERS, other)
    two_optimizers(nn.Linear(3, 1))
    end()
    assert other.reports is not None
    other.reports.close()
    atexit.unregister(other.reports.close)
    assert json.loads((tmp_path / "progress.json").read_text())["step"] == 1


@pytest.mark.parametrize("missing", ["SPOTRUN_DIR", "SPOTRUN_WORLD_NUMBER", "first rank"])
def test_nothing_is_told_where_nobody_listens(
    missing: str, watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing == "first rank":
        monkeypatch.setenv("LOCAL_RANK", "1")
    else:
        monkeypatch.delenv(missing)
    gradient_accumulation(nn.Linear(3, 1))
    assert watch.is_off
    assert list(tmp_path.iterdir()) == []


def test_a_script_with_run_is_left_alone(watch: Watch, tmp_path: Path) -> None:
    watch.turn_off()
    gradient_accumulation(nn.Linear(3, 1))
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_watch_is_said_once_and_ends_it(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SPOTRUN_WORLD_NUMBER", "three")
    gradient_accumulation(nn.Linear(3, 1))
    assert watch.is_off
    assert len(caplog.records) == 1
    assert "the script continues" in caplog.text


def test_a_watch_that_ends_leaves_no_report_that_stands_still(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gradient_accumulation(nn.Linear(3, 1))
    assert read_progress(tmp_path).world_number == 3
    monkeypatch.setattr(StepCounter, "optimizer_stepped", None)
    gradient_accumulation(nn.Linear(3, 1))
    assert watch.is_off
    assert read_progress(tmp_path) == TrainerProgress(), "it would count as a hang"


def test_a_child_of_a_training_neither_writes_nor_keeps_the_lock(
    watch: Watch, tmp_path: Path
) -> None:
    gradient_accumulation(nn.Linear(3, 1))
    reports = watch.reports
    assert reports is not None
    before = (tmp_path / "progress.json").read_bytes()
    child = os.fork()
    if not child:
        try:
            reports.close()
            held = [one for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
            os._exit(any(one.readlink().suffix == ".lock" for one in held))
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (tmp_path / "progress.json").read_bytes() == before
    name = "counts-steps-first.lock" if os.getpid() == os.getsid(0) else "counts-steps.lock"
    lock = os.open(tmp_path / name, os.O_RDWR)
    with pytest.raises(BlockingIOError):  # the parent goes on
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(lock)


def test_a_helper_that_steps_first_does_not_silence_the_training(tmp_path: Path) -> None:
    script = """if True:
        import json, os, subprocess, sys, torch

        parameter = torch.nn.Parameter(torch.ones(3))
        opt = torch.optim.SGD([parameter], lr=0.1)
        is_helper = len(sys.argv) > 1
        if not is_helper:
            command = [sys.executable, "-c", sys.orig_argv[2], "helper"]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            helper = subprocess.Popen(command, **pipes)
            assert helper.stdout.read(1) == b"."  # it has stepped and serves the training
        for _ in range(50 if is_helper else 3):
            parameter.sum().backward()
            opt.step()
        if is_helper:
            print(".", end="", flush=True)
            sys.stdin.read()
        else:
            helper.communicate()
            assert helper.returncode == 0
            print(json.load(open(os.environ["SPOTRUN_DIR"] + "/progress.json"))["step"])
    """
    env = {**os.environ, "SPOTRUN_DIR": str(tmp_path), "SPOTRUN_WORLD_NUMBER": "3"}
    env["PYTHONPATH"] = with_site(env)
    command = [sys.executable, "-c", script]
    told = subprocess.check_output(command, env=env, start_new_session=True, timeout=120)
    assert int(told) <= 3
    assert read_progress(tmp_path).step == 3


def test_what_tells_from_here_on_has_the_last_word(tmp_path: Path) -> None:
    script = """if True:
        import os, torch
        from pathlib import Path
        from spotrun_trainer.hooks.watches import WATCH
        from spotrun_trainer.process.ipc_files import write_progress
        from spotrun_trainer.process.progress_report import TrainerProgress

        parameter = torch.nn.Parameter(torch.ones(3))
        opt = torch.optim.SGD([parameter], lr=0.1)
        for _ in range(3):
            parameter.sum().backward()
            opt.step()
        assert WATCH.reports is not None
        WATCH.turn_off()  # as Run does
        write_progress(Path(os.environ["SPOTRUN_DIR"]), TrainerProgress(world_number=3, step=500))
    """
    env = {**os.environ, "SPOTRUN_DIR": str(tmp_path), "SPOTRUN_WORLD_NUMBER": "3"}
    env["PYTHONPATH"] = with_site(env)
    subprocess.run([sys.executable, "-c", script], env=env, check=True, timeout=120)
    assert read_progress(tmp_path).step == 500


def test_loader_workers_count_nothing(watch: Watch, tmp_path: Path) -> None:
    model = nn.Linear(3, 1)
    opt = SGD(model.parameters(), lr=0.1)
    for (x,) in DataLoader(TensorDataset(torch.ones(10, 3)), batch_size=2, num_workers=1):
        model(x).mean().backward()
        opt.step()
    assert watch.reports is not None
    watch.reports.close()
    assert read_progress(tmp_path).step == 5
