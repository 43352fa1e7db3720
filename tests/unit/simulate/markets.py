"""Small recorded markets made by hand: `"##..#"` has a node in its first two ticks and the last."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from spotrun.simulate.market.trace import Kind, Trace
from spotrun.simulate.market.virtual_market import Prices, Recordings, VirtualMarket
from spotrun.simulate.scenario import Job, Observe, Rules

GAP = 600.0
SPOT, ON_DEMAND = Decimal("1.2"), Decimal(3)
PUBLISHED = Rules(changeover_seconds=GAP, checkpoint_seconds=0, observe=Observe.MARKET)
ASKING = Rules(changeover_seconds=GAP, checkpoint_seconds=2 * GAP, observe=Observe.ATTEMPTS)


def nodes_in(picture: str) -> tuple[int, ...]:
    """`#` is one node, a digit so many, `.` none."""
    return tuple(0 if c == "." else 1 if c == "#" else int(c) for c in picture)


def a_trace(picture: str, zone: str = "us-west-2a", **trace: Any) -> Trace:
    """A recording; a tick is ten minutes."""
    available = nodes_in(picture)
    facts: dict[str, Any] = {
        "name": f"{zone}.json",
        "zone": zone,
        "region": "us-west-2",
        "instance_type": "p3.2xlarge",
        "gpu": "V100",
        "gpus_per_node": 1,
        "kind": Kind.AVAILABILITY,
        "capacity_probed": max(available, default=0) or 1,
        "gap_seconds": GAP,
        "start": None,
        "spot_usd_per_hour": SPOT,
        "on_demand_usd_per_hour": ON_DEMAND,
        **trace,
    }
    return Trace(available=available, **facts)


def a_market(*pictures: str, rules: Rules = PUBLISHED, start: int = 0) -> VirtualMarket:
    """One pool for each picture, in zones of their own."""
    traces = [a_trace(one, f"us-west-2{'abcdefgh'[n]}") for n, one in enumerate(pictures)]
    return Recordings(traces, rules, Prices()).market(start)


def a_job(work: float, deadline: float, workers: int = 1, **sizes: int) -> Job:
    """A job whose work and deadline are given in ticks."""
    most = sizes.get("max_workers", workers)
    return Job(work * GAP, deadline * GAP, workers, sizes.get("min_workers", workers), most)


def a_file(folder: Path, **changes: Any) -> Path:
    """A file as recorders write it."""
    content = {
        "source": "by hand",
        "upstream_file": "none",
        "cloud": "aws",
        "zone": "us-west-2a",
        "instance_type": "p3.2xlarge",
        "gpu": "V100",
        "gpus_per_node": 1,
        "capacity_probed": 2,
        "kind": "availability",
        "gap_seconds": 600,
        "start_utc": "2023-02-15T22:08:16+00:00",
        "available": [0, 1, 2, 2],
        "spot_price": [1.25, 1.25, 1.5, 1.5],
        "on_demand_price": 3.06,
        **changes,
    }
    kept = {key: value for key, value in content.items() if value is not ...}
    path = folder / "zone.json"
    path.write_text(json.dumps(kept))
    return path
