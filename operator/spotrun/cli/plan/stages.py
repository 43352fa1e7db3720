"""The needs of a pipeline's stages, derived from those of a whole model. Pure."""

from dataclasses import replace

from spotrun.cli.plan.strategies import Needs, Spread, bytes_per_gpu

CUTS_PER_STAGE = 2
"""The microbatches that a schedule is assumed to cut, for each stage."""


def can_be_staged(needs: Needs, stages: int, variant: str) -> bool:
    """Whether a model has a block for each stage, and its blocks were measured."""
    return stages == 1 or (needs.blocks >= stages and variant in needs.block_activations)


def bytes_by_stage(needs: Needs, spread: Spread, variant: str) -> list[int]:
    """Return the most that a GPU of each stage holds, from the first stage to the last."""
    if spread.stages == 1:
        return [bytes_per_gpu(needs, spread, variant)]
    return [
        bytes_per_gpu(stage_of(needs, stage, spread.stages, variant), spread, variant)
        for stage in range(spread.stages)
    ]


def stage_of(needs: Needs, stage: int, stages: int, variant: str) -> Needs:
    """Return the needs of one stage: its share of the weights, and its microbatches in flight.

    Blocks count as equal, and are divided evenly; what is outside of them is in the first stage
    or the last. In the schedule 1F1B a stage keeps the activations of as many microbatches as there
    are stages from it to the last.
    """
    is_first, is_last = stage == 0, stage == stages - 1
    num_blocks = _first_block(needs, stage + 1, stages) - _first_block(needs, stage, stages)
    front, behind = needs.rest_bytes - needs.behind_bytes, needs.behind_bytes
    rest = is_first * front + is_last * behind
    in_blocks = (needs.weight_bytes - needs.rest_bytes) * num_blocks // needs.blocks
    share = (in_blocks + rest) / needs.weight_bytes
    seen = needs.block_activations[variant]
    handed_in = 0 if is_first else seen["passed"]
    kept = is_first * seen["before"] + handed_in + num_blocks * seen["kept"]
    # A schedule keeps the last stage's result until its backward; a plain loop may have dropped it.
    work = max(seen["work"], seen["after"] + seen["result"]) if is_last else seen["work"]
    # torch keeps the gradients that a stage hands back until all of them have been sent.
    sent = 0 if is_first else CUTS_PER_STAGE * stages * seen["passed"]
    return replace(
        needs,
        parameters=round(needs.parameters * share),
        weight_bytes=round(needs.weight_bytes * share),
        gradient_bytes=round(needs.gradient_bytes * share),
        sum_bytes=round(needs.sum_bytes * share),
        optimizer_bytes=round(needs.optimizer_bytes * share),
        update_bytes=round(needs.update_bytes * share),
        rest_bytes=rest,
        blocks=num_blocks,
        activation_bytes={variant: (stages - stage) * kept + work + sent},
    )


def _first_block(needs: Needs, stage: int, stages: int) -> int:
    return -(-stage * needs.blocks // stages)
