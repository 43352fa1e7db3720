"""The machines that hold a model, with the fewest GPUs each. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from spotrun.cli.plan.machines import Machine
from spotrun.cli.plan.strategies import VARIANTS, Needs, Spread, Strategy, bytes_per_gpu

_MOST_GPUS = 1024
_SECOND_FORWARD = 4 / 3
"""A forward pass is a third of the operations of a microbatch; checkpointing does it twice."""


@dataclass(frozen=True)
class Assumptions:
    """The figures that are not measured; the output says that they are assumed."""

    usable: float  # share of a GPU's memory; the rest is for CUDA, NCCL and fragments
    utilization: float  # share of a GPU's best speed


@dataclass(frozen=True)
class Option:
    """One copy of a model on machines of one type."""

    machine: Machine
    spread: Spread
    variant: str
    bytes_per_gpu: int
    nodes: int
    usd_per_hour: Decimal
    usd_per_billion: float | None  # targets or tokens; None where the speed is unknown


def options(
    needs: Needs, machines: Sequence[Machine], assumed: Assumptions
) -> tuple[list[Option], list[str]]:
    """Return an option by model of GPU and precision, cheapest first; and those without any.

    A copy is kept within a node if one of that GPU's machines has room for it.
    """
    found, none = list[Option](), list[str]()
    for gpu in dict.fromkeys(one.gpu for one in machines):
        of_gpu = [one for one in machines if one.gpu == gpu]
        for short in (False, True) if of_gpu[0].has_bf16 else (False,):
            variants = [one for one in needs.variants if one.startswith("bf16") == short]
            best = _best(needs, of_gpu, variants, assumed)
            if best is not None:
                found.append(best)
            elif variants:
                none.append(f"{gpu}, {variants[0]}")
    return sorted(found, key=lambda one: (one.usd_per_hour, one.variant)), none


def _best(
    needs: Needs, machines: Sequence[Machine], variants: Sequence[str], assumed: Assumptions
) -> Option | None:
    """Return the option with the fewest nodes, then lowest price, fewest GPUs, least changes."""
    every = [
        _option(needs, machine, spread, variant, assumed)
        for machine in machines
        for variant in variants
        for spread in _spreads()
        if bytes_per_gpu(needs, spread, variant) <= assumed.usable * machine.memory_bytes
    ]

    def order(one: Option) -> tuple[int, Decimal, int, int]:
        return one.nodes, one.usd_per_hour, one.spread.gpus, VARIANTS.index(one.variant)

    return min(every, key=order, default=None)


def _spreads() -> Iterator[Spread]:
    yield Spread(Strategy.COPIES)
    gpus = 2
    while gpus <= _MOST_GPUS:
        yield Spread(Strategy.SHARDED, gpus)
        gpus *= 2


def _option(
    needs: Needs, machine: Machine, spread: Spread, variant: str, assumed: Assumptions
) -> Option:
    nodes = -(-spread.gpus // machine.gpus)
    usd_per_hour = nodes * machine.usd_per_hour
    return Option(
        machine=machine,
        spread=spread,
        variant=variant,
        bytes_per_gpu=bytes_per_gpu(needs, spread, variant),
        nodes=nodes,
        usd_per_hour=usd_per_hour,
        usd_per_billion=_usd_per_billion(needs, machine, variant, assumed),
    )


def _usd_per_billion(
    needs: Needs, machine: Machine, variant: str, assumed: Assumptions
) -> float | None:
    """Return the dollars for 1e9 targets, with all GPUs of a machine at work.

    Only for 16-bit arithmetic, whose speeds are known: operations / (speed x utilization) x price.
    """
    if machine.flops is None or not needs.weight_per_sample or not variant.startswith("bf16"):
        return None
    times = _SECOND_FORWARD if variant.endswith("checkpointed") else 1.0
    flops = times * needs.flops / (needs.microbatch * needs.weight_per_sample)
    hours = 1e9 * flops / (machine.flops * assumed.utilization) / 3600
    return hours * float(machine.usd_per_hour) / machine.gpus
