"""All kinds by name."""

from tests.campaign.kinds import agents, api, cluster, installation, releases, webhooks, workers
from tests.campaign.kinds.kind import Kind

_SOURCES = (api, cluster, installation, releases, webhooks, workers, agents)

KINDS: dict[str, Kind] = {name: kind for one in _SOURCES for name, kind in one.KINDS.items()}
