"""Faults of every kind, at random moments of five lives of a job; see docs/campaign.md.

    make campaign [KINDS=crash_before,node_deleted] [SCENARIOS=loss] [SEED=1] [HOURS=0.5]
    make campaign PLAN=loss:crash_after@7/0

Each plan prints a line of JSON; the last line has the sums.
"""

import argparse
import asyncio
import json
import logging
import sys
import time
from pathlib import Path

from devcluster.cluster import Cluster
from tests.campaign.campaign import Campaign
from tests.campaign.journal import Journal, summary, table
from tests.campaign.kinds.every import KINDS
from tests.campaign.kinds.releases import KINDS as RELEASES
from tests.campaign.plan import Plan, drawn
from tests.campaign.releases import NoHistoryError, source
from tests.campaign.scenarios import SCENARIOS
from tests.support.cluster.operator_world import install_crds

_JOURNAL = Path(".campaign/journal.jsonl")


def main() -> int:
    """Run a campaign; returns 1 if a plan has failed."""
    options = _options()
    logging.disable(logging.CRITICAL)  # an operator with injected faults logs much
    journal = Journal(options.journal)
    is_interrupted = False
    with Cluster() as cluster:
        install_crds(cluster)
        try:
            asyncio.run(_run(Campaign(cluster, journal, options.width), options))
        except KeyboardInterrupt:
            is_interrupted = True
            print("interrupted: run the same command again to continue", file=sys.stderr)
    lines = journal.lines()
    if options.table:
        options.table.write_text(json.dumps(table(lines), indent=1) + "\n")
    print(json.dumps(summary(lines)))
    if is_interrupted:
        return 130
    return 1 if any(not line["ok"] for line in lines) else 0


async def _run(campaign: Campaign, options: argparse.Namespace) -> None:
    until = time.monotonic() + 3600 * options.hours
    if options.plan:
        await campaign.prepare(sorted({plan.scenario for plan in options.plan}))
        await campaign.run_all(iter(options.plan), until=until, most=10**9)
        return
    writes = await campaign.prepare(options.scenarios)
    plans_drawn = drawn(options.kinds, writes, options.seed)
    await campaign.run_all(plans_drawn, until=until, most=options.plans)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kinds", type=_Names(list(KINDS)), default=list(KINDS))
    parser.add_argument("--scenarios", type=_Names(list(SCENARIOS)), default=list(SCENARIOS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hours", type=float, default=0.15)
    parser.add_argument("--plans", type=int, default=10**9, help="end when the journal has so many")
    parser.add_argument(
        "--plan", type=_plan, action="append", help="run this plan, instead of drawn ones"
    )
    parser.add_argument("--width", type=int, default=6, help="plans at once")
    parser.add_argument("--journal", type=Path, default=_JOURNAL)
    parser.add_argument("--table", type=Path, help="write the table of all plans to this file")
    options = parser.parse_args()
    kinds = {fault.kind for plan in options.plan or () for fault in plan.faults} or options.kinds
    if needs_history := sorted(RELEASES.keys() & kinds):
        try:
            source()
        except NoHistoryError as error:
            parser.error(f"{', '.join(needs_history)}: {error}, or choose other --kinds")
    return options


def _plan(text: str) -> Plan:
    try:
        plan = Plan.read(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    _Names(list(SCENARIOS))(plan.scenario)
    for fault in plan.faults:
        _Names(list(KINDS))(fault.kind)
    return plan


class _Names:
    """A list of known names, separated by commas."""

    def __init__(self, known: list[str]) -> None:
        self._known = known

    def __call__(self, text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        unknown = [name for name in names if name not in self._known]
        if unknown:
            raise argparse.ArgumentTypeError(
                f"{', '.join(unknown)} is unknown. Choose from {', '.join(self._known)}."
            )
        return names or self._known


if __name__ == "__main__":
    sys.exit(main())
