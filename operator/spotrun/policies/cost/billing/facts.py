"""The facts about a job that a bill needs: its cost according to its status."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from spotrun.money.units import NO_RATE
from spotrun.policies.cost.billing.lines import JobFacts, Standing
from spotrun.policies.cost.billing.parts import parts_of
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.stored.cost import Cost
from spotrun.state.view import FINISHED


@dataclass(frozen=True)
class BilledJob:
    """The last known state of a job, as far as its bill needs it."""

    uid: str
    name: str
    created_at: datetime
    labels: Mapping[str, str]
    cost: Cost
    as_of: datetime
    standing: Standing
    capacity_of: Mapping[str, str]  # capacity types by pool, of the nodes that it has had

    @property
    def facts(self) -> JobFacts:
        """The same facts in the form that the lines of a bill use."""
        return JobFacts(
            uid=self.uid,
            name=self.name,
            created_at=self.created_at,
            as_of=self.as_of,
            amounts=parts_of(self.cost, self.capacity_of),
            usd_per_hour=self.cost.usd_per_hour or NO_RATE,
            standing=self.standing,
            labels=self.labels,
        )

    def deleted(self, cost: Cost, now: datetime) -> "BilledJob":
        """Return the same job as one that was deleted, at its final cost."""
        final = replace(cost, usd_per_hour=None)
        return replace(self, cost=final, as_of=cost.as_of or now, standing=Standing.GONE)


def billed(
    job: JobSnapshot,
    status: JobState,
    now: datetime,
    capacity_of: Mapping[str, str],
    of_namespace: Mapping[str, str] | None = None,
) -> BilledJob:
    """Return what a bill needs of a job; `capacity_of` has the pools that were known before.

    Labels of the namespace override those of the job: people who may write jobs choose the job's
    labels, and could charge another team.
    """
    nodes = [worker.node for worker in job.workers if worker.node is not None]
    is_over = status.phase in FINISHED and not status.cost.usd_per_hour
    return BilledJob(
        uid=job.uid,
        name=job.name,
        created_at=job.created_at,
        labels={**job.cost_labels, **(of_namespace or {})},
        cost=status.cost,
        as_of=status.cost.as_of or now,
        standing=Standing.ENDED if is_over else Standing.OPEN,
        capacity_of={
            **capacity_of,
            **{node.pool: node.capacity.value for node in nodes if node.pool},
        },
    )
