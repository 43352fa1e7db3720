"""A start from the local tier that fails: what is deleted, and what is tried again."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from spotrun_trainer.checkpoint import DamagedCheckpointError, UnreadableCheckpointError
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.tiers.tier import Vote
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.loop.saving.local_saving import LocalSaving
from spotrun_trainer.step.vote import StepVote

FOUND = SimpleNamespace(name=Name(9, 1))
REPORTED: dict[str, Any] = {}


class Tier:
    """A local tier that holds step 9, and does not give it."""

    def __init__(self, failure: Exception) -> None:
        self.failure = failure
        self.is_forgotten = False
        self.complete: Name | None = FOUND.name

    def held(self) -> str:
        return "[]"

    def find(self, _said: list[str], _durable: str) -> Any:
        return FOUND

    def load(self, *_: Any, **__: Any) -> dict[str, Any]:
        raise self.failure

    def forget(self) -> None:
        self.is_forgotten, self.complete = True, None

    def conclude(self, vote: Vote) -> Name | None:
        self.complete = None if vote.busy or vote.failed else Name(12, 1)
        return self.complete

    def is_wanted(self, _vote: Vote) -> bool:
        return False


class Preloaded:
    """Checkpoints of which one was fetched before."""

    def __init__(self) -> None:
        self.is_given_up = False

    def newest(self) -> None:
        return None

    def end_preload(self) -> None:
        self.is_given_up = True


def starting_from(tier: Tier, durable: str) -> LocalSaving:
    rank_info = SimpleNamespace(restore=durable, local_rank=0, elastic=False)
    context = SimpleNamespace(
        rank_info=rank_info,
        group=Group(),
        device=torch.device("cpu"),
        place=None,
        tracked=None,
        reporter=SimpleNamespace(update=REPORTED.update),
        trace=SimpleNamespace(mark=lambda *_, **__: None),
    )
    REPORTED.clear()
    saving = LocalSaving(context)  # type: ignore[arg-type]
    saving._tier = tier  # type: ignore[assignment]
    return saving


@pytest.mark.parametrize("durable", ["step-3.g1", ""])
def test_a_part_that_nobody_can_read_now_is_kept_and_no_older_step_is_taken(durable: str) -> None:
    tier = Tier(UnreadableCheckpointError("10.0.0.7 does not answer"))
    with pytest.raises(UnreadableCheckpointError, match="does not answer; it is kept"):
        starting_from(tier, durable).restore(Preloaded())  # type: ignore[arg-type]
    assert not tier.is_forgotten


def test_a_damaged_step_is_deleted_and_the_checkpoint_counts() -> None:
    tier = Tier(DamagedCheckpointError("its hash differs"))
    fetched = Preloaded()
    assert starting_from(tier, "step-3.g1").restore(fetched) is None  # type: ignore[arg-type]
    assert fetched.is_given_up, "as soon as the tier has a newer step"
    assert (tier.is_forgotten, REPORTED) == (True, {"kept": None})


def test_a_damaged_step_without_a_checkpoint_is_an_error() -> None:
    tier = Tier(DamagedCheckpointError("its hash differs"))
    with pytest.raises(DamagedCheckpointError, match="its hash differs"):
        starting_from(tier, "").restore(Preloaded())  # type: ignore[arg-type]
    assert tier.is_forgotten


def test_a_step_is_reported_once_all_processes_have_it_and_not_while_one_is_busy() -> None:
    saving = starting_from(Tier(ValueError()), "")
    saving.is_wanted(StepVote(local_busy=1))
    assert REPORTED == {}
    saving.is_wanted(StepVote())
    assert REPORTED == {"kept": "step-12.g1"}
