import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from devcluster.cluster import Cluster
from spotrun.api import load
from spotrun.api.crd import KINDS, openapi
from spotrun.api.schemas.structural import JsonSchema
from tests.support.api.kubectl_tables import only_row
from tests.support.api.manifest_cases import Manifest, changed, job, pool

STATUS = {
    "phase": "Running",
    "reason": "Training",
    "workers": {
        "summary": "6/8",
        "running": 6,
        "spot": 5,
        "onDemand": 1,
        "selector": "spotrun.dev/job-uid=abc",
    },
    "progress": {"percent": "42%", "eta": "2030-01-02T03:04:05Z"},
    "cost": {
        "usd": "12.34",
        "usdPerHour": "3.21",
        "savedUsd": "-0.50",
        "budgetUsedPercent": "10%",
        "forecastUsd": "29.40",
        "pricing": "Complete",
    },
    "interruptions": {"count": 3, "lostSteps": 0},
    "checkpoint": {"name": "step-4200.g7", "step": 4200, "time": "2020-01-01T00:00:00Z"},
    "conditions": [
        {
            "type": "Running",
            "status": "True",
            "reason": "Training",
            "message": "6 of 8 workers train",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": 1,
        }
    ],
    "nextWorkerId": 44,
    "settled": "0-37",
}


@pytest.fixture
def shown(cluster: Cluster, crds: None) -> Iterator[Manifest]:
    """A running job, as far as its status says."""
    manifest = job({"/metadata.name": "shown", "workers.min": 2, "workers.max": 8})
    cluster.kubectl("apply", "--validate=strict", "-f", "-", input=json.dumps(manifest))
    patch = json.dumps({"status": STATUS})
    cluster.kubectl("patch", "tjob/shown", "--subresource=status", "--type=merge", "-p", patch)
    yield manifest
    cluster.kubectl("delete", "tjob/shown")


def _table(cluster: Cluster, *arguments: str) -> dict[str, str]:
    return only_row(cluster.kubectl("get", *arguments).stdout)


def test_a_job_is_shown_in_one_line(cluster: Cluster, shown: Manifest) -> None:
    row = _table(cluster, "tjob", "shown")
    assert row.pop("AGE").endswith("s")
    assert row == {
        "NAME": "shown",
        "PHASE": "Running",
        "WORKERS": "6/8",
        "SPOT": "5",
        "PROGRESS": "42%",
        "COST($)": "12.34",
        "$/HR": "3.21",
        "SAVED($)": "-0.50",
        "BUDGET": "10%",
    }
    header = cluster.kubectl("get", "tjob", "shown").stdout.splitlines()[0]
    assert len(header) < 110


def test_a_wide_line_says_more(cluster: Cluster, shown: Manifest) -> None:
    row = _table(cluster, "tjob", "shown", "-o", "wide")
    # A date column shows an age: since 2020.
    assert int(row.pop("CHECKPOINT").partition("y")[0]) >= 5
    wide = ("INTERRUPTIONS", "ETA", "FORECAST($)", "REASON")
    assert {name: row[name] for name in wide} == {
        "INTERRUPTIONS": "3",
        "ETA": "2030-01-02T03:04:05Z",
        "FORECAST($)": "29.40",
        "REASON": "Training",
    }


def test_jobs_are_found_by_their_categories(cluster: Cluster, shown: Manifest) -> None:
    for category in ("spotrun", "all"):
        listed = cluster.kubectl("get", category, "-o", "name").stdout
        assert "trainingjob.spotrun.dev/shown" in listed


def test_jobs_are_waited_for_by_condition(cluster: Cluster, shown: Manifest) -> None:
    cluster.kubectl("wait", "tjob/shown", "--for=condition=Running", "--timeout=5s")


def test_a_status_is_read_back_as_it_was_written(cluster: Cluster, shown: Manifest) -> None:
    stored = json.loads(cluster.kubectl("get", "tjob", "shown", "-o", "json").stdout)
    status = load(stored).status
    assert status is not None
    assert status.manifest() == STATUS


def test_kubectl_scale_writes_the_wanted_size(cluster: Cluster, shown: Manifest) -> None:
    cluster.kubectl("scale", "tjob/shown", "--replicas=5")
    path = "{.spec.workers.replicas}"
    assert cluster.kubectl("get", "tjob/shown", "-o", f"jsonpath={path}").stdout == "5"
    scale = json.loads(
        cluster.kubectl("get", "tjob/shown", "--subresource=scale", "-o", "json").stdout
    )
    assert scale["status"] == {"replicas": 6, "selector": "spotrun.dev/job-uid=abc"}


def test_an_apply_without_replicas_keeps_what_scale_wrote(
    cluster: Cluster, shown: Manifest
) -> None:
    cluster.kubectl("scale", "tjob/shown", "--replicas=5")
    edited = changed(shown, {"workers.max": 6})
    cluster.kubectl("apply", "-f", "-", input=json.dumps(edited))
    path = "{.spec.workers.replicas} {.spec.workers.max}"
    assert cluster.kubectl("get", "tjob/shown", "-o", f"jsonpath={path}").stdout == "5 6"


def test_a_job_without_a_status_is_shown_and_scaled(cluster: Cluster, crds: None) -> None:
    cluster.kubectl("apply", "-f", "-", input=json.dumps(job({"/metadata.name": "fresh"})))
    assert "fresh" in cluster.kubectl("get", "tjob", "fresh").stdout
    cluster.kubectl("scale", "tjob/fresh", "--replicas=2")
    cluster.kubectl("delete", "tjob/fresh")


def test_a_pool_is_shown_in_one_line(cluster: Cluster, crds: None) -> None:
    manifest = pool({"/metadata.name": "shown", "zones": ["z"]})
    cluster.kubectl("apply", "--validate=strict", "-f", "-", input=json.dumps(manifest))
    price = {"usdPerHour": "0.42", "onDemandUsdPerHour": "1.006"}
    status = {
        "types": "g5.xlarge",
        "zones": "z",
        "nodes": 4,
        "workers": 3,
        "available": "True",
        "interruptions24h": 1,
        "price": price,
    }
    patch = json.dumps({"status": status})
    cluster.kubectl("patch", "cpool/shown", "--subresource=status", "--type=merge", "-p", patch)
    row = _table(cluster, "cpool", "shown")
    assert row.pop("AGE").endswith("s")
    assert row == {
        "NAME": "shown",
        "INSTANCE": "g5.xlarge",
        "ZONE": "z",
        "CAPACITY": "Spot",
        "$/HR": "0.42",
        "NODES": "4",
        "WORKERS": "3",
        "AVAILABLE": "True",
        "INTERRUPTIONS/24H": "1",
        "UNPRICED": "",
    }
    cluster.kubectl("delete", "cpool/shown")


def _groups(schema: JsonSchema, path: str) -> Iterator[tuple[str, JsonSchema]]:
    """Every object of a schema: `kubectl explain` shows the fields of one at a time."""
    while schema["type"] == "array":
        schema = schema["items"]
    if "properties" in schema:
        yield path, schema
        for name, field in schema["properties"].items():
            yield from _groups(field, f"{path}.{name}")


@pytest.mark.parametrize("kind", KINDS)
def test_kubectl_explains_every_field(cluster: Cluster, crds: None, kind: str) -> None:
    described = KINDS[kind]
    groups = dict(_groups(openapi(described.model), described.short_name))
    cluster.kubectl("explain", described.short_name)  # fills the cache of discovery
    with ThreadPoolExecutor(4) as threads:
        pages = threads.map(lambda path: cluster.kubectl("explain", path).stdout, groups)
    for (path, schema), page in zip(groups.items(), pages, strict=True):
        text = " ".join(page.split())
        for name, field in schema["properties"].items():
            if field != {"type": "object"}:  # metadata, which Kubernetes explains
                assert " ".join(field["description"].split()) in text, f"{path}.{name}"
