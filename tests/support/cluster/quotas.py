"""A ResourceQuota of the world's namespace."""

from devcluster.client import at
from tests.support.cluster.operator_world import World


async def limit(world: World, resource: str, most: int) -> None:
    """Have a quota with so much of a resource, and wait until it is kept."""
    path, few = at("resourcequotas", world.namespace), at("resourcequotas", world.namespace, "few")
    spec = {"spec": {"hard": {resource: str(most)}}}
    if await world.kube.list(path):
        await world.kube.patch(few, spec)
    else:
        await world.kube.create(path, {"metadata": {"name": "few"}, **spec})

    async def is_kept() -> bool:
        hard = (await world.kube.get(few)).get("status", {}).get("hard", {})
        return bool(hard.get(resource) == str(most))

    await world.until(is_kept)
