"""Outcomes of phases that remain valid in the next world, within a step that is repeated."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import torch

from spotrun_trainer.step import vote
from spotrun_trainer.step.phase import Outcome
from spotrun_trainer.step.vote import StepVote


def without_plans(outcome: Outcome) -> Outcome:
    """Return the outcome for another world, where all processes vote again on actions."""
    return replace(outcome, votes=vote.without_plans(outcome.votes))


def pack(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return outcomes as JSON for joining workers; it carries floats exactly."""
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
    """Rebuild outcomes from the JSON of `pack`."""
    return [
        Outcome(
            StepVote(**one["said"]),
            torch.tensor(one["totals"], dtype=torch.float64, device=device),
            None if one["norm"] is None else torch.tensor(one["norm"], device=device),
            one["skipped"],
        )
        for one in content
    ]
