"""`kubectl tjob doctor` for an installation and for a job: each finding with its fix."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from spotrun.cli.cluster.installation import Installation
from spotrun.cli.doctor.findings import Health, as_data, drawn, is_bad
from spotrun.cli.doctor.installation import RIGHTS, Facts, judged, missing
from spotrun.cli.doctor.mistakes import mistakes
from spotrun.cli.text.look import Look
from tests.support.screens.shown_jobs import WAITING, shown_job, shown_pools

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WELL = Facts(
    now=NOW,
    namespace="ml",
    own_version="0.1.0",
    kinds=frozenset({"trainingjobs", "capacitypools"}),
    known=Installation("0.1.0", "example/trainer:1"),
    renewed="2026-03-01T11:59:55Z",
    may=dict.fromkeys(RIGHTS, True),
    jobs=(shown_job(),),
    pools=shown_pools()[:1],
)


def test_a_sound_installation_is_told_in_a_few_lines() -> None:
    findings = judged(WELL)
    assert not is_bad(findings)
    assert (
        "\n".join(drawn(findings, Look(NOW, 100)))
        == """\
  ok  the CRDs are installed, with every field of this version
  ok  spotrun 0.1.0 is installed; its image for training is example/trainer:1
  ok  an operator is the leader, and renewed its Lease 5s ago
  ok  you may use every command in ml
  ok  the prices of 1 pool are known
  ok  1 spot pool; 3 interruptions in 24 h. Notices come by taints, conditions and Events of nodes
      (docs/clouds.md says what each cloud needs)
  ok  1 job, none in trouble"""
    )


UNSEEN = shown_job(status={"phase": "", "reason": "", "message": "", "conditions": []})


@pytest.mark.parametrize(
    ("facts", "health", "what", "mend"),
    [
        (replace(WELL, kinds=frozenset()), "Bad", "does not know", "kubectl apply --server-side"),
        (replace(WELL, missing_fields=("spec.idle",)), "Bad", "spec.idle", "crds/"),
        (replace(WELL, known=None), "Hidden", "spotrun-installation", "SPOTRUN_SYSTEM_NAMESPACE"),
        (replace(WELL, known=Installation("1", "", "web")), "Bad", "the namespace web", "-n web"),
        (
            replace(WELL, renewed="2026-03-01T11:00:00Z"),
            "Bad",
            "no operator is the leader",
            "get pods",
        ),
        (replace(WELL, jobs=(UNSEEN,)), "Bad", "looked at 1 job (gpt)", "serves this namespace"),
        (replace(WELL, may={RIGHTS[2]: False}), "Worse", "you may not create", "the role edit"),
        (replace(WELL, pools=shown_pools()), "Worse", "pool on-demand", "annotate node NODE"),
        (replace(WELL, pools=()), "Worse", "there is no CapacityPool", "capacity-pool.yaml"),
        (
            replace(WELL, jobs=(shown_job(status=WAITING),)),
            *("Worse", "jobs that need attention: 1 of 1 (gpt)", "kubectl tjob doctor NAME"),
        ),
    ],
)
def test_each_trouble_has_its_mend(facts: Facts, health: str, what: str, mend: str) -> None:
    found = [one for one in as_data(judged(facts)) if one["health"] == health]
    assert any(what in one["what"] and mend in one["mend"] for one in found), found


def test_fields_that_served_crds_lack_are_named_by_their_paths() -> None:
    ours: dict[str, Any] = {
        "properties": {"a": {"items": {"properties": {"b": {}, "c": {}}}}, "d": {}}
    }
    theirs: dict[str, Any] = {"properties": {"a": {"items": {"properties": {"b": {}}}}}}
    assert list(missing(ours, theirs)) == ["a.c", "d"]
    assert list(missing(ours, ours)) == []


def test_a_job_without_mistakes_is_well() -> None:
    asked = {"requests": {"cpu": "1"}}
    container = {"name": "trainer", "image": "example/gpt:1.0", "resources": asked}
    workers = {"workers": {"template": {"spec": {"containers": [container]}}}}
    [found] = mistakes(shown_job(spec=workers))
    assert found.health is Health.WELL


def test_usual_mistakes_are_found() -> None:
    container = {"name": "trainer", "image": "registry:5000/gpt"}
    spec = {
        "workers": {"template": {"spec": {"containers": [{"name": "logs"}, container]}}},
        "placement": {"capacity": "Spot"},
        "checkpoint": None,
    }
    found = mistakes(shown_job(spec=spec, status={"progress": {}}))
    words = ("no place for checkpoints", "a deadline", "can change", "request nothing", "no step")
    assert [word for word in words if not any(word in one.what for one in found)] == []
