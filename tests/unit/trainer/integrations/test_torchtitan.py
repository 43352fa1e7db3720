"""torchtitan's own Trainer in two processes: each step is made once, whoever is told to end."""

import importlib.util
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch.distributed.elastic.multiprocessing.errors import record

from spotrun_trainer.integrations.torchtitan import follow
from tests.support.processes.torchrun_world import gone_on, told_to_end

SCRIPT = Path(__file__).parents[3] / "scripts/torchtitan_on_cpus.py"


@pytest.mark.skipif(
    importlib.util.find_spec("torchtitan") is None, reason="`make test-torchtitan` brings it"
)
def test_no_step_is_lost_when_one_rank_is_told_to_end(tmp_path: Path) -> None:
    env = {"SPOTRUN_CHECKPOINT": str(tmp_path)}
    told = told_to_end(SCRIPT, 1, after=10, folder=tmp_path / "first", env=env)
    saved = [int(one.name.removeprefix("step-")) for one in (tmp_path / "checkpoint").iterdir()]
    assert max(saved) == told.step, "the last step that was made is the one that was saved"
    assert told.total == 100_000
    assert "loss" in {one.name for one in told.metrics}
    on = gone_on(SCRIPT, told.step + 4, folder=tmp_path / "second", env=env)
    assert on.step == told.step + 4


@dataclass
class Checkpointer:
    """A checkpointer as torchtitan's, which notes what it saves."""

    enable: bool = True
    load_only: bool = False
    interval: int = 10
    saved: list[int] = field(default_factory=list)
    waits: int = 0

    def load(self, _step: int = -1) -> bool:
        return False

    def save(self, curr_step: int, last_step: bool = False) -> bool:
        is_time = self.enable and (last_step or curr_step % self.interval == 0)
        if is_time:
            self.saved.append(curr_step)
        return is_time

    def maybe_wait_for_saving(self) -> None:
        self.waits += 1


class Loop:
    """A Trainer's loop over a few steps; something happens in one of them."""

    def __init__(self, in_step_3: Callable[[], None], **checkpointer: Any) -> None:
        self._in_step_3 = in_step_3
        self.config = SimpleNamespace(training=SimpleNamespace(steps=5))
        self.checkpointer: Any = Checkpointer(**checkpointer)
        self.logged: list[float] = []
        log = lambda _, loss, *__, **___: self.logged.append(loss)  # noqa: E731
        self.metrics_processor = SimpleNamespace(log=log)
        self.step = 0

    @record
    def train(self) -> None:
        self.checkpointer.load(step=-1)
        while self.step < 5:
            self.step += 1
            if self.step == 3:
                self._in_step_3()
            self.metrics_processor.log(self.step, 1.0, 1.0, grad_norm=0.5)
            self.checkpointer.save(self.step, last_step=self.step == 5)


@pytest.fixture
def _in_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOTRUN_DIR", str(tmp_path))
    for name in ("TORCHELASTIC_ERROR_FILE", "SPOTRUN_WORLD_NUMBER"):
        monkeypatch.delenv(name, raising=False)


def tell() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.usefixtures("_in_job")
def test_a_loop_that_is_told_saves_out_of_turn_and_ends() -> None:
    before = signal.getsignal(signal.SIGTERM)
    loop: Any = Loop(tell)
    follow(loop)
    try:
        with pytest.raises(SystemExit) as end:
            loop.train()
    finally:
        signal.signal(signal.SIGTERM, before)

    assert end.value.code == 0
    assert loop.checkpointer.saved == [3]
    assert loop.checkpointer.waits == 1, "a save that goes on in another thread is waited for"
    assert loop.checkpointer.interval == 10
    assert loop.logged == [1.0] * 3


@pytest.mark.usefixtures("_in_job")
def test_a_loop_that_is_not_told_trains_to_its_end() -> None:
    before = signal.getsignal(signal.SIGTERM)
    loop: Any = Loop(lambda: None)
    follow(loop)
    loop.train()

    assert loop.checkpointer.saved == [5]
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.usefixtures("_in_job")
@pytest.mark.parametrize("how", [{"enable": False}, {"load_only": True}])
def test_who_saves_nothing_is_ended_as_ever(how: dict[str, bool]) -> None:
    handlers = []
    loop: Any = Loop(lambda: handlers.append(signal.getsignal(signal.SIGTERM)), **how)
    before = signal.getsignal(signal.SIGTERM)
    follow(loop)
    loop.train()
    assert handlers == [before]
