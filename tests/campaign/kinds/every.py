"""All kinds by name."""

from tests.campaign.kinds import api, cluster, workers
from tests.campaign.kinds.kind import Kind

KINDS: dict[str, Kind] = {**api.KINDS, **cluster.KINDS, **workers.KINDS}
