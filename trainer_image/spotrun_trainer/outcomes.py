"""Outcomes of phases as JSON, for newcomers that come in the middle of a step."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from spotrun_trainer.commit import Ballot
from spotrun_trainer.phase import Outcome


def pack(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """In floats, which JSON carries exactly."""
    return [
        {
            "said": asdict(one.said),
            "totals": one.totals.tolist(),
            "norm": None if one.norm is None else one.norm.item(),
        }
        for one in outcomes
    ]


def unpack(content: Sequence[dict[str, Any]], device: torch.device) -> list[Outcome]:
    """As they were."""
    return [
        Outcome(
            Ballot(**one["said"]),
            torch.tensor(one["totals"], dtype=torch.float64, device=device),
            None if one["norm"] is None else torch.tensor(one["norm"], device=device),
        )
        for one in content
    ]
