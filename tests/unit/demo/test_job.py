from pathlib import Path
from typing import Any

import pytest

from demo.job import Job, Local, load, localized, volume

LOCAL = Local(Path("/scripts"), steps=300)
SEVERAL = """
kind: TrainingJob
metadata: {name: a}
spec: {workers: {template: {spec: {containers: [{name: one}, {name: other}]}}}}
"""


def job(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": list(containers) or [{"name": "main", "image": "x"}]}}
    return {
        "apiVersion": "spotrun.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "tiny"},
        "spec": {"workers": {"template": template}, **spec},
    }


def containers(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = manifest["spec"]["workers"]["template"]["spec"]["containers"]
    return found


def test_the_script_is_found_where_an_image_would_have_it() -> None:
    sidecar = {"name": "sidecar", "image": "y"}
    given = job(sidecar, {"name": "trainer", "image": "x"})
    local = localized(given, LOCAL)
    assert sidecar == containers(local)[0]
    assert containers(local)[1]["workingDir"] == "/scripts"
    assert "workingDir" not in containers(given)[1]
    assert local["metadata"]["namespace"] == "default"


def test_three_workers_of_one_thread_each() -> None:
    environment = [{"name": "OMP_NUM_THREADS", "value": "8"}, {"name": "MODE", "value": "tiny"}]
    given = job({"name": "main", "image": "x", "env": environment})
    given["spec"]["workers"] |= {"min": 8, "max": 64, "sizes": [8, 64]}
    local = localized(given, LOCAL)
    sizes = {key: local["spec"]["workers"].get(key) for key in ("min", "max", "replicas", "sizes")}
    assert sizes == {"min": 2, "max": 3, "replicas": 3, "sizes": None}
    assert containers(local)[0]["env"] == [
        {"name": "MODE", "value": "tiny"},
        {"name": "OMP_NUM_THREADS", "value": "1"},
        {"name": "PYTHONUNBUFFERED", "value": "1"},
    ]


def test_checkpoints_as_often_as_losses_that_come_every_half_a_minute_ask_for() -> None:
    given = job(checkpoint={"uri": "s3://bucket/tiny", "every": "10m"})
    expected = {"uri": "s3://bucket/tiny", "every": "5s"}
    assert expected == localized(given, LOCAL)["spec"]["checkpoint"]
    assert "checkpoint" not in localized(job(), LOCAL)["spec"]


def test_as_many_steps_as_are_asked_for() -> None:
    words = ["train.py", "--steps=5000", "--steps-per-epoch=7", "5000"]
    local = localized(job({"name": "main", "image": "x", "args": words}), LOCAL)
    assert containers(local)[0]["args"] == ["train.py", "--steps=300", words[2], "5000"]


def test_a_node_has_room_for_what_a_worker_asks_for() -> None:
    resources = {"requests": {"cpu": 2}, "limits": {"nvidia.com/gpu": 1}}
    local = localized(job({"name": "main", "image": "x", "resources": resources}), LOCAL)
    assert Job(local).room == {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}


def test_a_node_has_room_for_one_worker_also_if_the_job_asks_for_nothing() -> None:
    assert Job(localized(job(), LOCAL)).room == {"cpu": "1", "memory": "1Gi"}


def test_the_claim_of_the_checkpoints() -> None:
    place = {"volume": {"persistentVolumeClaim": {"claimName": "tiny"}}}
    assert Job(job(checkpoint=place)).claim == "tiny"
    assert None is Job(job(checkpoint={"uri": "s3://bucket/tiny"})).claim
    assert None is Job(job()).claim


def test_the_volume_is_bound_to_its_claim_and_shared() -> None:
    there, claim = volume("tiny", Path("/shared"))
    assert there["spec"]["claimRef"] == {"namespace": "default", "name": "tiny"}
    assert there["spec"]["hostPath"]["path"] == "/shared"
    assert there["metadata"]["name"] == claim["spec"]["volumeName"]
    assert ["ReadWriteMany"] == there["spec"]["accessModes"] == claim["spec"]["accessModes"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: Job", "is not the manifest of one TrainingJob"),
        ("- a list", "is not the manifest of one TrainingJob"),
        ("{kind: TrainingJob, metadata: {name: a}, spec: {}}", "is not the manifest of one"),
        (SEVERAL, "no container of the job is named trainer"),
        ("a: [", "cannot be read as a manifest"),
        (None, "cannot be read as a manifest"),
    ],
)
def test_what_is_no_job_is_refused_in_words(tmp_path: Path, text: str | None, words: str) -> None:
    file = tmp_path / "job.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ValueError, match=words):
        load(file, LOCAL)


def test_in_a_bucket_it_needs_no_volume() -> None:
    claim = {"persistentVolumeClaim": {"claimName": "a"}}
    given = job(
        {"name": "main", "env": [{"name": "AWS_REGION", "value": "eu-west-1"}]},
        checkpoint={"volume": claim, "keep": 2},
    )
    moved = Job(given).in_bucket("s3://demo/checkpoints", {"AWS_REGION": "us-east-1"})
    assert moved.manifest["spec"]["checkpoint"] == {
        "every": "5s",
        "keep": 2,
        "uri": "s3://demo/checkpoints",
    }
    assert containers(moved.manifest)[0]["env"] == [{"name": "AWS_REGION", "value": "us-east-1"}]
    assert moved.claim is None
