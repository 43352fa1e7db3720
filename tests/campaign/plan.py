"""Faults, their moments and their scenario: drawn from a seed, and written as one word. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Self

from typing_extensions import override

_FAULT = re.compile(r"(?P<kind>\w+)@(?P<at>\d+)/(?P<target>\d+)")
_ONE_IN = 3
"""One plan of so many has a second fault."""


@dataclass(frozen=True)
class Fault:
    """A fault that strikes at the operator's nth write."""

    kind: str
    at: int  # counted from 1, leases left out
    target: int = 0  # which pod, node or agent, modulo their number

    @override
    def __str__(self) -> str:
        return f"{self.kind}@{self.at}/{self.target}"


@dataclass(frozen=True)
class Plan:
    """The faults of one run of a scenario."""

    scenario: str
    faults: tuple[Fault, ...]

    @override
    def __str__(self) -> str:
        return f"{self.scenario}:{'+'.join(map(str, self.faults))}"

    @classmethod
    def read(cls, text: str) -> Self:
        """The inverse of `str`."""
        scenario, _, rest = text.partition(":")
        matches = [_FAULT.fullmatch(one) for one in rest.split("+")]
        found = [match for match in matches if match is not None]
        if len(found) < len(matches):
            raise ValueError(f"{text!r} is no plan. Give one as `loss:crash_after@7/0`.")
        return cls(scenario, tuple(Fault(m["kind"], int(m["at"]), int(m["target"])) for m in found))


def drawn(kinds: Sequence[str], writes: Mapping[str, int], seed: int) -> Iterator[Plan]:
    """Return plans without end: each kind in each scenario, at moments that the seed chooses.

    `writes` has how many writes each scenario makes when nothing goes wrong.
    """
    random = Random(seed)  # noqa: S311  (a plan is no secret)
    while True:
        pairs = list(product(kinds, writes))
        random.shuffle(pairs)
        for kind, scenario in pairs:
            chosen = [kind, *([random.choice(kinds)] if random.randrange(_ONE_IN) == 0 else [])]
            last = writes[scenario]
            faults = (Fault(one, random.randint(1, last), random.randrange(3)) for one in chosen)
            yield Plan(scenario, tuple(sorted(faults, key=lambda fault: fault.at)))


def simpler(plan: Plan) -> Iterator[Plan]:
    """Return the plans to try in place of a failing one: fewer faults first, then earlier ones."""
    if len(plan.faults) > 1:
        for n in range(len(plan.faults)):
            yield Plan(plan.scenario, plan.faults[:n] + plan.faults[n + 1 :])
    for n, fault in enumerate(plan.faults):
        for at, target in ((1, fault.target), (fault.at // 2, fault.target), (fault.at, 0)):
            changed = Fault(fault.kind, max(at, 1), target)
            if changed != fault:
                yield Plan(plan.scenario, (*plan.faults[:n], changed, *plan.faults[n + 1 :]))
