"""A plan as a text for people, and as JSON for programs."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from spotrun.cli.plan.choice import Assumptions, Option
from spotrun.cli.plan.strategies import Needs, Spread, Strategy, bytes_per_gpu

_GIB = 2**30
_SPREADS = (
    Spread(Strategy.COPIES),
    Spread(Strategy.SHARDED, 2),
    Spread(Strategy.SHARDED, 8),
    Spread(Strategy.SHARDED, 64),
    Spread(Strategy.TENSOR, 8),
)


def as_text(
    script: str, needs: Needs, options: Sequence[Option], none: Sequence[str], assumed: Assumptions
) -> str:
    """Return what each GPU holds by strategy, and which machines do, with the ways to know it."""
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
                _row(str(one), [_gib(bytes_per_gpu(needs, one, kind)) for kind in variants])
                for one in _SPREADS
            ),
            "",
            "What holds a copy, cheapest on demand first",
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
                str(one): {kind: bytes_per_gpu(needs, one, kind) for kind in needs.variants}
                for one in _SPREADS
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
    yield (
        f"Assumed: {assumed.usable:.0%} of a GPU's memory can be used (--usable); for dollars per "
        f"1e9 targets {assumed.utilization:.0%} of its 16-bit speed (--utilization), with all GPUs "
        "of a machine at work. Prices are on demand, of the built-in tables; spot costs less."
    )
    yield "No dollars per 1e9 targets: not computed in bf16, or the GPU's speed is not known."
    yield from (f"* {name}: not measured, {why}" for name, why in needs.left_out.items())
    if none:
        yield f"* held by no number of GPUs up to 1,024: {'; '.join(none)}"


def _row(name: str, cells: Sequence[str]) -> str:
    return f"  {name:24}" + "".join(f"{cell:>20}" for cell in cells)


def _gib(size: int) -> str:
    return f"{size / _GIB:,.1f}" if size >= _GIB / 10 else f"{size / _GIB:.3f}"
