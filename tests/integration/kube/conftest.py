import uuid

import pytest

from spotrun.kube.rest.client import Client
from tests.integration.kube.helpers import NAMESPACES, ConfigMap, Space


@pytest.fixture
async def space(direct: Client) -> Space:
    name = f"kube-{uuid.uuid4().hex[:8]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await direct.create(NAMESPACES, body, ConfigMap)
    return Space(direct, name)
