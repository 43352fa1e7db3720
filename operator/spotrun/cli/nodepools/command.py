"""`kubectl tjob nodepools`: read the CapacityPools, and write what Karpenter should know."""

import json
import sys
from argparse import Namespace

from spotrun.cli.cluster.exit_codes import DONE
from spotrun.cli.cluster.session import Cluster, ask
from spotrun.cli.jobs.reading import all_pools
from spotrun.cli.nodepools.manifests import Written, node_pools, overlays
from spotrun.cli.submit.manifests import as_yaml


def run(chosen: Namespace) -> int:
    """Print the objects; what is left out of them goes to standard error."""

    async def work(cluster: Cluster) -> int:
        pools = sorted(await all_pools(cluster), key=lambda pool: pool.metadata.name)
        made, priced = Written(), Written()
        if chosen.kind != "NodeOverlay":
            made = node_pools(pools, chosen.node_class)
        if chosen.kind != "NodePool":
            priced = overlays(pools, chosen.minutes_lost)
        objects = [*made.objects, *priced.objects]
        for note in (*made.notes, *([] if objects else [_why_none(chosen.kind, len(pools))])):
            print(f"# {note}", file=sys.stderr)
        if chosen.output == "json":
            print(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2))
        elif objects:
            print(as_yaml(*objects), end="")
        return DONE

    return ask(chosen, work)


def _why_none(kind: str | None, pools: int) -> str:
    if not pools:
        return "the cluster has no CapacityPool: declare one as in examples/capacity-pool.yaml"
    if kind == "NodeOverlay":
        return "no spot pool is known to lose nodes often enough to change a price"
    return "no CapacityPool was declared by people: those found from nodes have NodePools already"
