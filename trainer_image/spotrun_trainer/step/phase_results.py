"""Outcomes of phases that outlive a world: of a step that comes again, in the middle."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import torch

from spotrun_trainer.step import commit
from spotrun_trainer.step.commit import StepVote
from spotrun_trainer.step.phase import Outcome


def without_plans(outcome: Outcome) -> Outcome:
    """What counts of it in another world: what was to be done with its step is said anew."""
    return replace(outcome, votes=commit.without_plans(outcome.votes))


def pack(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """As JSON, for newcomers: in floats, which it carries exactly."""
    return [
        {
            "said": asdict(one.votes),
            "totals": one.totals.tolist(),
            "norm": None if one.norm is None else one.norm.item(),
            "skipped": one.skipped,
        }
        for one in outcomes
    ]


def unpack(content: Sequence[dict[str, Any]], device: torch.device) -> list[Outcome]:
    """As they were."""
    return [
        Outcome(
            StepVote(**one["said"]),
            torch.tensor(one["totals"], dtype=torch.float64, device=device),
            None if one["norm"] is None else torch.tensor(one["norm"], device=device),
            one["skipped"],
        )
        for one in content
    ]
