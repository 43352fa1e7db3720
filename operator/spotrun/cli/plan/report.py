"""A plan as a text for people, and as JSON for programs."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from spotrun.cli.plan.choice import Assumptions, Option
from spotrun.cli.plan.stages import CUTS_PER_STAGE, bytes_by_stage, can_be_staged
from spotrun.cli.plan.strategies import Needs, Spread, Strategy

_GIB = 2**30
_SPREADS = (
    Spread(Strategy.COPIES),
    Spread(Strategy.SHARDED, 2),
    Spread(Strategy.SHARDED, 8),
    Spread(Strategy.SHARDED, 64),
    Spread(Strategy.TENSOR, 8),
    Spread(Strategy.COPIES, stages=2),
    Spread(Strategy.COPIES, stages=8),
    Spread(Strategy.SHARDED, 8, stages=8),
)
_NAME_CHARS = 36


def as_text(
    script: str, needs: Needs, options: Sequence[Option], none: Sequence[str], assumed: Assumptions
) -> str:
    """Return the memory of each GPU by strategy, the machines, and how each figure is known."""
    variants = needs.variants
    return "\n".join(
        [
            f"{script}: {needs.parameters:,} parameters, microbatches of {needs.microbatch}",
            "",
            "Measured, GiB of one process with the whole model",
            *_measured(needs, variants),
            "",
            "GiB on each GPU at its peak",
            _row("", variants),
            *(
                _row(str(one), [_most(needs, one, kind) for kind in variants])
                for one in _SPREADS
                if _can_be(needs, one)
            ),
            *_by_stage(needs),
            "",
            "Machines that hold a copy, cheapest on demand first",
            *_machines(options),
            "",
            *_notes(needs, none, assumed),
        ]
    )


def as_json(
    script: str, needs: Needs, options: Sequence[Option], none: Sequence[str], assumed: Assumptions
) -> str:
    """Return one object with all figures."""
    return json.dumps(
        {
            "script": script,
            "needs": asdict(needs),
            "assumed": asdict(assumed),
            "bytes_per_gpu": {
                str(one): {
                    kind: max(bytes_by_stage(needs, one, kind))
                    for kind in needs.variants
                    if can_be_staged(needs, one.stages, kind)
                }
                for one in _SPREADS
                if _can_be(needs, one)
            },
            "bytes_by_stage": {
                str(one): {
                    kind: bytes_by_stage(needs, one, kind)
                    for kind in needs.variants
                    if can_be_staged(needs, one.stages, kind)
                }
                for one in _SPREADS
                if one.stages > 1 and _can_be(needs, one)
            },
            "options": [
                {
                    "instance_type": one.machine.instance_type,
                    "region": one.machine.region,
                    "gpu": one.machine.gpu,
                    "nodes": one.nodes,
                    "gpus_per_copy": one.spread.gpus,
                    "variant": one.variant,
                    "bytes_per_gpu": one.bytes_per_gpu,
                    "usd_per_hour": float(one.usd_per_hour),
                    "usd_per_billion": one.usd_per_billion,
                }
                for one in options
            ],
            "held_by_none": list(none),
        }
    )


def _measured(needs: Needs, variants: Sequence[str]) -> Iterator[str]:
    parts = {
        "weights and buffers": needs.weight_bytes,
        "gradients": needs.gradient_bytes,
        "sums of gradients": needs.sum_bytes,
        "optimizer": needs.optimizer_bytes,
        "its update": needs.update_bytes,
    }
    parts |= {f"activations, {kind}": needs.activation_bytes[kind] for kind in variants}
    yield from (f"  {name:36}{_gib(size):>8}" for name, size in parts.items())


def _can_be(needs: Needs, spread: Spread) -> bool:
    return any(can_be_staged(needs, spread.stages, kind) for kind in needs.variants)


def _most(needs: Needs, spread: Spread, variant: str) -> str:
    """Return what the largest stage needs; a dash if that is not known."""
    if not can_be_staged(needs, spread.stages, variant):
        return "-"
    return _gib(max(bytes_by_stage(needs, spread, variant)))


def _by_stage(needs: Needs) -> Iterator[str]:
    """Yield the sizes by stage of the longest pipeline above without sharding."""
    pipelines = [one for one in _SPREADS if one.stages > 1 and one.gpus == 1]
    for spread in [one for one in pipelines if _can_be(needs, one)][-1:]:
        yield ""
        yield f"GiB on each GPU of {spread.stages} stages, from the first to the last"
        for kind in needs.variants:
            if can_be_staged(needs, spread.stages, kind):
                sizes = map(_gib, bytes_by_stage(needs, spread, kind))
                yield f"  {kind:24}" + "".join(f"{one:>8}" for one in sizes)


def _machines(options: Sequence[Option]) -> Iterator[str]:
    head = ("GiB", "nodes", "$/h")
    yield (
        f"  {'machine':18}{'copy':24}{'computed':20}"
        + "".join(f"{one:>8}" for one in head)
        + (f"{'$/1e9 targets':>15}")
    )
    for one in options:
        each = "-" if one.usd_per_billion is None else f"{one.usd_per_billion:,.2f}"
        yield (
            f"  {one.machine.instance_type:18}{one.spread!s:24}{one.variant:20}"
            f"{_gib(one.bytes_per_gpu):>8}{one.nodes:>8}{one.usd_per_hour:>8.2f}{each:>15}"
        )


def _notes(needs: Needs, none: Sequence[str], assumed: Assumptions) -> Iterator[str]:
    yield (
        "Measured on tensors without content: weights to microbatches. Derived: what is sharded. "
        "Estimated: tensor parallelism (Run does not divide a model so by itself)."
    )
    if any(_can_be(needs, one) for one in _SPREADS if one.stages > 1):
        yield (
            "Derived, for the largest stage: equal blocks, divided evenly, and the activations of "
            "as many microbatches as 1F1B has in flight. Assumed: a schedule cuts "
            f"{CUTS_PER_STAGE} microbatches for each stage, each of {needs.microbatch} as above. "
            "No machines are chosen for stages: how long they wait depends on the schedule."
        )
    else:
        yield f"No stages: {_why_no_stages(needs)}."
    yield (
        f"Assumed: {assumed.usable:.0%} of a GPU's memory can be used (--usable); for dollars per "
        f"1e9 targets {assumed.utilization:.0%} of its 16-bit speed (--utilization), with all GPUs "
        "of a machine at work. Prices are on demand, of the built-in tables; spot costs less."
    )
    yield "No dollars per 1e9 targets: not computed in bf16, or the GPU's speed is not known."
    yield from (f"* {name}: not measured, {why}" for name, why in needs.left_out.items())
    if none:
        yield f"* not held by any number of GPUs up to 1,024: {'; '.join(none)}"


def _why_no_stages(needs: Needs) -> str:
    if needs.blocks < 2:
        return "the model has no nn.ModuleList with a block for each"
    return "its blocks are not called one after the other, once each"


def _row(name: str, cells: Sequence[str]) -> str:
    return f"  {name:{_NAME_CHARS}}" + "".join(f"{cell:>20}" for cell in cells)


def _gib(size: int) -> str:
    return f"{size / _GIB:,.1f}" if size >= _GIB / 10 else f"{size / _GIB:.3f}"
