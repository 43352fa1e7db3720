"""Resources as numbers, and the share of a node that a worker pays for."""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction

# The prices per hour that OpenCost assumes for a core, a GiB and a GPU if only the price of a whole
# node is known (its configs/default.json). Only their ratios matter here.
_USD_PER_CORE = Fraction("0.031611")
_USD_PER_GIB = Fraction("0.004237")
_USD_PER_GPU = Fraction("0.95")
_GIB = 2**30
# Rounded down, so that the shares of a node never add up to more than the node.
_DOWN = Context(prec=28, rounding=ROUND_DOWN)


@dataclass(frozen=True)
class Resources:
    """The resources that a pod requests, or that a node has."""

    cpu: Decimal = Decimal(0)  # cores
    memory: Decimal = Decimal(0)  # bytes
    gpus: int = 0
    claimed: int = 0  # devices by claims (DRA), which a node's own resources do not include

    @property
    def devices(self) -> int:
        """The number of devices that training processes drive."""
        return self.gpus + self.claimed


NOTHING = Resources()


def total(many: Iterable[Resources]) -> Resources:
    """Return the sum."""
    result = NOTHING
    for one in many:
        result = Resources(result.cpu + one.cpu, result.memory + one.memory, result.gpus + one.gpus)
    return result


def left(of: Resources, taken: Resources) -> Resources:
    """Return what is left after use; negative if more was taken than there is."""
    return Resources(of.cpu - taken.cpu, of.memory - taken.memory, of.gpus - taken.gpus)


def times_in(one: Resources, free: Resources) -> int:
    """Return how many of these fit into the free resources; one without requests fits once."""
    shares = [
        have // need
        for have, need in (
            (free.cpu, one.cpu),
            (free.memory, one.memory),
            (free.gpus, one.gpus),
        )
        if need > 0
    ]
    return max(int(min(shares)), 0) if shares else 1


@functools.lru_cache(maxsize=4096)  # few kinds of workers and nodes, many calls
def share_of(pod_requests: Resources, node_allocatable: Resources) -> Decimal:
    """Return the share of the node's price that a pod pays, from 0 to 1.

    A pod with GPUs pays for its part of the GPUs: no other job can train on the cores that are left
    without GPUs. A pod that claims devices pays for its part of the devices that the node is known
    to have. (Weighted by requests, as in OpenCost, a job with all 8 GPUs of a node and a sixth of
    its cores would pay 58 % of it.) A pod without GPUs pays for its part of cores and memory,
    weighted by their prices. A pod without requests may use the whole node, so it pays for all.
    """
    if pod_requests.devices:
        return _quotient(Fraction(pod_requests.devices), Fraction(node_allocatable.devices))
    if not (pod_requests.cpu or pod_requests.memory):
        return Decimal(1)
    return _quotient(_weight(pod_requests), _weight(node_allocatable))


def normalised(shares: Sequence[Decimal]) -> tuple[Decimal, ...]:
    """Return the shares of pods on one node, scaled down if they add up to more than the node.

    They can, if pods with and without GPUs share a node, or if a node now offers less than pods
    were given earlier.
    """
    total = sum(map(Fraction, shares), Fraction(0))
    if total <= 1:
        return tuple(shares)
    return tuple(_quotient(Fraction(share), total) for share in shares)


def _weight(resources: Resources) -> Fraction:
    """Return the sum of the prices of the single resources."""
    return (
        Fraction(resources.cpu) * _USD_PER_CORE
        + Fraction(resources.memory) / _GIB * _USD_PER_GIB
        + resources.gpus * _USD_PER_GPU
    )


def _quotient(part: Fraction, whole: Fraction) -> Decimal:
    if part >= whole:  # a node may now offer less than pods were given, or nothing
        return Decimal(1)
    ratio = part / whole
    return _DOWN.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
