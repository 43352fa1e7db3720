"""How namespaces of the end-to-end tests come and go, and where their files are."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.files import Files, SharedFolder, StorageClassFiles
from tests.e2e.kind.machine import SetupError
from tests.e2e.namespaces import Namespaces

Answer = Callable[[tuple[str, ...]], str]


class Kubectl:
    """Notes what it is asked, and answers as told."""

    def __init__(self, answer: Answer = lambda _: "") -> None:
        self.answer = answer
        self.asked: list[tuple[str, ...]] = []
        self.given: list[Any] = []

    def __call__(self, *arguments: str, given: str | None = None) -> str:
        self.asked.append(arguments)
        if given is not None:
            self.given += json.loads(given)["items"]
        return self.answer(arguments)


def namespaces(kubectl: Kubectl, files: Files) -> Namespaces:
    return Namespaces(cast("Cluster", SimpleNamespace(kubectl=kubectl, files=files)))


def test_a_namespace_is_left_with_its_pods_and_gone_at_the_end(tmp_path: Path) -> None:
    kubectl = Kubectl()
    all_of_them = namespaces(kubectl, SharedFolder(kubectl, tmp_path, "/files"))
    first, second = all_of_them.open("first"), all_of_them.open("second")
    kubectl.asked.clear()

    all_of_them.leave(first)
    assert kubectl.asked == [
        ("delete", "namespace", first, "--wait=false"),
        ("wait", f"--namespace={first}", "--for=delete", "pod", "--all", "--timeout=300s"),
    ]
    kubectl.asked.clear()

    all_of_them.until_gone()  # the second too, whose test never came to leave it
    told = ("--ignore-not-found", "--timeout=300s")
    assert kubectl.asked == [
        ("delete", "namespace", first, second, *told),
        ("delete", "persistentvolume", first, second, "--ignore-not-found", "--timeout=60s"),
    ]


def test_where_none_was_opened_none_is_waited_for(tmp_path: Path) -> None:
    kubectl = Kubectl()

    namespaces(kubectl, SharedFolder(kubectl, tmp_path, "/files")).until_gone()

    assert kubectl.asked == []


def stuck(name: str) -> dict[str, Any]:
    conditions = [
        {"status": "False", "message": "All legacy kube types successfully parsed"},
        {"status": "True", "message": "Some resources are remaining: pods. has 1 instances"},
    ]
    return {"metadata": {"name": name}, "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    "left", [stuck("a"), {"kind": "List", "items": [stuck("a")]}], ids=["one", "a list"]
)
def test_a_namespace_that_gets_stuck_fails_the_run_with_the_reason(
    left: dict[str, Any], tmp_path: Path
) -> None:
    def answer(arguments: tuple[str, ...]) -> str:
        if arguments[:2] == ("delete", "namespace"):
            raise SetupError("timed out waiting for the condition on namespaces/a")
        return json.dumps(left)

    kubectl = Kubectl(answer)
    opened = Namespaces(
        namespaces(kubectl, SharedFolder(kubectl, tmp_path, "/files")).cluster, ["a"]
    )

    with pytest.raises(SetupError) as raised:
        opened.until_gone()
    assert str(raised.value) == (
        "timed out waiting for the condition on namespaces/a\n"
        "a: Some resources are remaining: pods. has 1 instances"
    )


def test_traces_of_all_workers_are_found_on_a_shared_folder(tmp_path: Path) -> None:
    kubectl = Kubectl()
    files = SharedFolder(kubectl, tmp_path, "/files")
    files.make("team")
    for folder, line in ((".", "1\n"), ("job-0", "2\n"), ("job-1", '{"st')):
        (tmp_path / "team" / folder).mkdir(exist_ok=True)
        (tmp_path / "team" / folder / "trace.jsonl").write_text(line)

    assert sorted(files.traces("team")) == ["1\n", "2\n", '{"st']
    assert files.traces("nobody") == []
    volume, claim = kubectl.given
    assert volume["spec"]["hostPath"] == {"path": "/files/team", "type": "Directory"}
    assert volume["spec"]["claimRef"] == {"namespace": "team", "name": "checkpoints"}
    assert claim["spec"]["volumeName"] == "team"


def test_a_storage_class_serves_a_claim_that_a_pod_reads() -> None:
    kubectl = Kubectl(lambda arguments: '["1\\n"]' if "exec" in arguments else "")
    files = StorageClassFiles(kubectl, "nfs", "registry/trainer:1")

    files.make("team")

    claim, reader = kubectl.given
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "nfs",
    }
    assert reader["spec"]["containers"][0]["image"] == "registry/trainer:1"
    assert kubectl.asked[1][:3] == ("wait", "--namespace=team", "pod/reader")
    assert files.traces("team") == ["1\n"]


def test_a_storage_class_that_makes_no_such_volume_is_told_with_events() -> None:
    def answer(arguments: tuple[str, ...]) -> str:
        if "wait" in arguments:
            raise SetupError("timed out")
        return "NodePath only supports ReadWriteOnce" if "events" in arguments else ""

    files = StorageClassFiles(Kubectl(answer), "ssd", "registry/trainer:1")

    with pytest.raises(SetupError, match=r"(?s)a claim of the storage class ssd .*ReadWriteOnce$"):
        files.make("team")


def test_only_volumes_of_our_claims_are_waited_for() -> None:
    volumes = {
        "items": [
            {"metadata": {"name": name}, "spec": {"claimRef": {"namespace": namespace}}}
            for name, namespace in (("pvc-1", "team"), ("pvc-2", "others"))
        ]
        + [{"metadata": {"name": "free"}, "spec": {}}]
    }
    kubectl = Kubectl(lambda arguments: json.dumps(volumes) if "get" in arguments else "")

    StorageClassFiles(kubectl, "nfs", "registry/trainer:1").remove(["team"])

    assert kubectl.asked[1:] == [
        ("wait", "--for=delete", "persistentvolume/pvc-1", "--timeout=300s")
    ]
