"""The cost of a replay's checkpoints in an object store."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from spotrun.api.trainingjob import TrainingJob
from spotrun.money.data.builtin_tables import built_in_tables
from spotrun.money.other_costs.storage_costs import BYTES_PER_GB, Usage, gb_hours
from spotrun.money.other_costs.storage_prices import Bucket, StoragePrice
from spotrun.money.price_sources import Catalog
from spotrun.money.price_table import PriceTable
from spotrun.policies.cost.storage.strategy import CLAIM_SECONDS, requests_per_save
from spotrun.simulate.outcome import Outcome

_HOUR = 3600.0
_PIECE_BYTES = 8 << 20
"""The trainer reads checkpoints in pieces of this size."""
_DEFAULT_REGION = "us-east-1"
"""The region that S3 clients use if none is given."""


@dataclass(frozen=True)
class Saves:
    """Checkpoints as a replay saves them, and their price."""

    checkpoint_bytes: int
    processes: int
    keep: int
    every_seconds: float
    price: StoragePrice
    region: str

    def usd(self, run: Outcome) -> float | None:
        """Return their cost until the end; None if the replay has no end.

        The kept checkpoints count from the start, and each node that is taken away causes a
        restore. Nodes are in the bucket's region, so traffic costs nothing.
        """
        if run.finish_hours is None:
            return None
        trained = (run.finish_hours - run.idle_hours) * _HOUR
        saves, beats = int(trained // self.every_seconds), int(trained // CLAIM_SECONDS)
        each = requests_per_save(self.checkpoint_bytes, self.processes)
        pieces = -(-self.checkpoint_bytes // _PIECE_BYTES)
        kept = gb_hours((self.keep + 1) * self.checkpoint_bytes, int(run.finish_hours * _HOUR))
        used = Usage(
            gb_hours=kept,
            puts=saves * each.puts + beats,
            gets=saves * each.gets + beats + run.interruptions * pieces,
        )
        return round(float(used.usd(self.price).total.exact), 6)


def saves_of(
    job: TrainingJob,
    *,
    gigabytes: float | None,
    region: str | None,
    tables: Sequence[Path],
    every_seconds: float,
    workers: int,
) -> tuple[Saves | None, str | None]:
    """Return the checkpoints of a job, or why their cost is not estimated.

    For a job without a bucket both are None. Raises ValueError if a price table cannot be read.
    """
    checkpoint = job.spec.checkpoint
    if checkpoint is None or checkpoint.uri is None or every_seconds == inf:
        return None, None
    sums = job.status.accumulators if job.status is not None else None
    known = sums.storage if sums is not None else None
    size = None if gigabytes is None else int(gigabytes * BYTES_PER_GB)
    if size is None and known is not None and known.stored_bytes and known.checkpoints:
        size = known.stored_bytes // known.checkpoints
    if size is None:
        return None, "the cost of checkpoints in its store is not included: give --checkpoint-gb"
    where = region or (known and known.region) or _DEFAULT_REGION
    bucket = Bucket.of(str(checkpoint.uri), (known and known.endpoint) or "", where)
    price = Catalog((*map(_table, tables), *built_in_tables())).storage(bucket)
    if price is None:
        return None, (
            f"the cost of checkpoints in {bucket.address} is not included, because no table has its"
            f" price in {where}: give --price-table, or --bucket-region"
        )
    processes = workers * (job.spec.workers.processes or 1)
    return Saves(size, processes, checkpoint.keep, every_seconds, price, where), None


def _table(path: Path) -> PriceTable:
    try:
        return PriceTable.parse(path.read_text("utf-8"), str(path))
    except (OSError, ValueError) as error:
        raise ValueError(f"--price-table {path}: {error}") from None
