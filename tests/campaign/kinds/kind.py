"""One kind of fault: how it strikes and heals, and how much of the end it may change."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.campaign.ground import Ground, Needs
from tests.campaign.plan import Fault
from tests.faults.rules import Rule

Strike = Callable[[Ground, Fault], Awaitable[None]]


@dataclass(frozen=True)
class Kind:
    """A fault of which a run can be made; it heals by itself."""

    strike: Strike | None = None  # at its moment
    rule: Callable[[Fault], Rule] | None = None  # instead: put in place from the beginning
    replicas: int = 1
    is_exact: bool = False
    """The job ends in the very same status, for nothing happened to its workers."""
    is_alone: bool = False
    """The whole cluster is struck, so nothing else runs in it meanwhile."""
    is_from_start: bool = False
    """The fault strikes before anything is done, and knows of its moment by itself."""
    ends_job: bool = False
    """Nothing is left of the job afterwards, whatever the scenario was to be."""
    is_in_ci: bool = True
    """The fault takes little time, and leaves no trace in a cluster that other tests use, too."""
    needs: Needs = field(default_factory=Needs)
