import base64
from typing import Any

import pytest

from devcluster.client import ApiError
from devcluster.kubelet.runtime import StartError
from devcluster.process.downward import Place, field, quantity, resource
from devcluster.process.environment import variables

POD: dict[str, Any] = {
    "metadata": {
        "name": "p",
        "namespace": "ns",
        "uid": "u-1",
        "labels": {"app": "a", "tier": 'x"y'},
        "annotations": {"note": "line\nline"},
    },
    "spec": {"serviceAccountName": "robot", "containers": [{"name": "main"}, {"name": "side"}]},
}
NODE: dict[str, Any] = {
    "metadata": {"name": "n1"},
    "status": {
        "addresses": [
            {"type": "Hostname", "address": "n1"},
            {"type": "InternalIP", "address": "1.2.3.4"},
        ],
        "allocatable": {"cpu": "4", "memory": "8Gi"},
    },
}
PLACE = Place(POD, NODE, "127.9.1.2")
SERVICE = {"KUBERNETES_SERVICE_HOST": "127.9.0.1"}


OBJECTS: dict[str, dict[str, Any]] = {
    "/api/v1/namespaces/ns/configmaps/settings": {
        "data": {"color": "red", "size": "$(color)"},
        "binaryData": {"raw": base64.b64encode(b"\xff").decode()},
    },
    "/api/v1/namespaces/ns/secrets/keys": {
        "data": {"password": base64.b64encode(b"s3cret").decode(), "color": "Ymx1ZQ=="}
    },
}


class FakeApi:
    async def get(self, path: str) -> dict[str, Any]:
        if path not in OBJECTS:
            raise ApiError(404, "NotFound", f"{path} not found")
        return OBJECTS[path]

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError(path)


async def resolved(**container: Any) -> dict[str, str]:
    return await variables(FakeApi(), PLACE, {"name": "main", **container}, SERVICE)


def key_ref(kind: str, name: str, key: str, **more: Any) -> dict[str, Any]:
    return {"name": "V", "valueFrom": {kind: {"name": name, "key": key, **more}}}


async def test_values_refer_to_what_precedes_them() -> None:
    env = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)-$(LATER)-$(KUBERNETES_SERVICE_HOST)"},
        {"name": "LATER", "value": "x"},
        {"name": "A", "value": "$(A)2"},
        {"name": "EMPTY"},
    ]
    assert await resolved(env=env) == {
        **SERVICE,
        "A": "12",
        "B": "1-$(LATER)-127.9.0.1",
        "LATER": "x",
        "EMPTY": "",
    }


async def test_own_words_override_bulk_and_service() -> None:
    env_from = [
        {"configMapRef": {"name": "settings"}},
        {"secretRef": {"name": "keys"}},
        {"prefix": "CM_", "configMapRef": {"name": "settings"}},
        {"secretRef": {"name": "absent", "optional": True}},
    ]
    env = [
        {"name": "KUBERNETES_SERVICE_HOST", "value": "mine"},
        {"name": "password", "value": "not $(password)"},
    ]
    assert await resolved(env=env, envFrom=env_from) == {
        "KUBERNETES_SERVICE_HOST": "mine",
        "color": "blue",
        "size": "$(color)",
        "raw": "\udcff",
        "password": "not s3cret",
        "CM_color": "red",
        "CM_size": "$(color)",
        "CM_raw": "\udcff",
    }


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (key_ref("configMapKeyRef", "settings", "color"), {"V": "red"}),
        (key_ref("secretKeyRef", "keys", "password"), {"V": "s3cret"}),
        (key_ref("secretKeyRef", "keys", "none", optional=True), {}),
        (key_ref("configMapKeyRef", "absent", "x", optional=True), {}),
        (
            {"name": "V", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"V": "127.9.1.2"},
        ),
    ],
)
async def test_references(entry: dict[str, Any], expected: dict[str, str]) -> None:
    assert await resolved(env=[entry]) == {**SERVICE, **expected}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (key_ref("configMapKeyRef", "absent", "x"), 'configmap "absent" not found'),
        (key_ref("secretKeyRef", "absent", "x"), 'secret "absent" not found'),
        (key_ref("secretKeyRef", "keys", "none"), "couldn't find key none in secret ns/keys"),
        ({"name": "V", "valueFrom": {"fileKeyRef": {}}}, "unsupported valueFrom: fileKeyRef"),
        ({"name": "V", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}, "fieldPath: spec.x"),
    ],
)
async def test_references_to_nothing_say_so(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(StartError, match=message) as caught:
        await resolved(env=[entry])
    assert caught.value.reason == "CreateContainerConfigError"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['app']", "a"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['note']", "line\nline"),
        ("metadata.labels", 'app="a"\ntier="x\\"y"'),
        ("metadata.annotations", 'note="line\\nline"'),
        ("spec.nodeName", "n1"),
        ("spec.serviceAccountName", "robot"),
        ("status.podIPs", "127.9.1.2"),
        ("status.hostIP", "1.2.3.4"),
        ("status.hostIPs", "1.2.3.4"),
    ],
)
def test_fields(path: str, expected: str) -> None:
    assert field(PLACE, path) == expected


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "limits.cpu", "divisor": "0"}, "2"),
        ({"resource": "limits.memory"}, str(8 << 30)),
        ({"resource": "limits.memory", "divisor": "1Gi"}, "8"),
        ({"resource": "requests.memory", "divisor": "1M"}, "105"),
        ({"resource": "requests.cpu"}, "0"),
        ({"resource": "limits.nvidia.com/gpu"}, "8"),
    ],
)
def test_resources(reference: dict[str, str], expected: str) -> None:
    resources = {
        "limits": {"cpu": "1500m", "nvidia.com/gpu": "8"},
        "requests": {"memory": "100Mi"},
    }
    assert resource(PLACE, {"resources": resources}, reference) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", "1"),
        ("100m", "0.1"),
        ("2k", "2000"),
        ("1.5Gi", "1610612736"),
        ("1e3", "1000"),
        ("5E", "5E18"),
    ],
)
def test_quantities(text: str, expected: str) -> None:
    assert quantity(text) == quantity(expected.replace("E18", "0" * 18))


async def test_resources_of_another_container() -> None:
    reference = {"containerName": "side", "resource": "limits.cpu"}
    entry = {"name": "V", "valueFrom": {"resourceFieldRef": reference}}
    assert (await resolved(env=[entry]))["V"] == "4"
    reference["containerName"] = "none"
    with pytest.raises(StartError, match="no container none"):
        await resolved(env=[entry])
