"""Questions to a cluster's etcd, by its JSON gateway."""

import http.client
import json
from contextlib import closing
from typing import Any

from devcluster.cluster import Cluster


def ask(cluster: Cluster, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return etcd's answer."""
    layout = cluster.control.layout
    with closing(http.client.HTTPConnection(layout.host, layout.ports.etcd, timeout=20)) as line:
        line.request("POST", f"/v3/{path}", json.dumps(body))
        answer: dict[str, Any] = json.load(line.getresponse())
    return answer
