"""The price of the bucket that holds a job's checkpoints."""

from spotrun.money.other_costs.storage_prices import Bucket, StoragePrice
from spotrun.money.price_sources import Catalog
from spotrun.state.snapshot import JobSnapshot


def storage_price(seen: JobSnapshot, catalog: Catalog) -> StoragePrice | None:
    """Return the price from the tables; None for a job without a bucket, or if no table has it."""
    bucket = bucket_of(seen)
    return None if bucket is None else catalog.storage(bucket)


def bucket_of(seen: JobSnapshot) -> Bucket | None:
    """Return the bucket and its known facts, from the job's present or earlier workers."""
    checkpoint, sums = seen.spec.checkpoint, seen.status.accumulators.storage
    if checkpoint is None or checkpoint.uri is None:
        return None
    region, endpoint = (sums.region, sums.endpoint) if sums is not None else ("", "")
    for worker in seen.workers:
        progress = worker.agent.report.progress if worker.agent is not None else None
        if progress is not None and progress.store is not None:
            region, endpoint = progress.store.region, progress.store.endpoint
            break
    return Bucket.of(str(checkpoint.uri), endpoint, region)
