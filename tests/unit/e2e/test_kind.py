"""The parts of the end-to-end cluster that need no cluster."""

import hashlib
import io
import json
import os
import re
import shutil
import tarfile
from pathlib import Path

import pytest

from tests.e2e.kind import cluster, images, machine, programs, sysctls
from tests.e2e.kind.cluster import Kind
from tests.e2e.kind.engine import Engine
from tests.e2e.kind.machine import SetupError
from tests.e2e.kind.nodes import CLUSTER, Worker, kind_config

DESCRIPTION = {
    "Id": "sha256:abc",
    "Architecture": "amd64",
    "Os": "linux",
    "Config": {"User": "65532:65532", "Entrypoint": ["spotrun"], "Cmd": ["operator"]},
}


def test_kind_is_told_of_nodes_labels_and_mounts() -> None:
    worker = Worker("e2e-worker", "a", "spot")

    told = kind_config([worker], {Path("/here/images"): "/images", Path("/here/files"): "/files"})

    mounts = [
        {"hostPath": "/here/images", "containerPath": "/images", "readOnly": True},
        {"hostPath": "/here/files", "containerPath": "/files", "readOnly": False},
    ]
    labels = {
        "topology.kubernetes.io/region": "e2e-1",
        "topology.kubernetes.io/zone": "e2e-1a",
        "node.kubernetes.io/instance-type": "e2e.cpu",
        "karpenter.sh/capacity-type": "spot",
    }
    assert told == {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "name": CLUSTER,
        "nodes": [
            {"role": "control-plane", "extraMounts": mounts},
            {"role": "worker", "labels": labels, "extraMounts": mounts},
        ],
    }


def test_a_stand_in_is_the_image_with_another_layer() -> None:
    archive = images.stand_in("localhost/a:1", DESCRIPTION, b"layer")

    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        files = {entry.name: opened.extractfile(entry).read() for entry in opened}  # type: ignore[union-attr]
    assert json.loads(files["manifest.json"]) == [
        {"Config": "config.json", "RepoTags": ["localhost/a:1"], "Layers": ["layer.tar"]}
    ]
    assert json.loads(files["config.json"]) == {
        "architecture": "amd64",
        "os": "linux",
        "config": DESCRIPTION["Config"],
        "rootfs": {
            "type": "layers",
            "diff_ids": [f"sha256:{hashlib.sha256(files['layer.tar']).hexdigest()}"],
        },
    }


def test_a_layer_is_known_by_the_image_that_it_stands_for() -> None:
    assert images.layer_of("sha256:abc") == images.layer_of("sha256:abc")
    assert images.layer_of("sha256:abc") != images.layer_of("sha256:abd")


def test_nodes_run_the_kubernetes_of_devclusters_pin() -> None:
    go_mod = (programs.NODE_MODULE / "go.mod").read_text()
    found = re.search(r"k8s.io/kubernetes (v\S+)", go_mod)

    assert found is not None
    assert found[1] == programs.kubernetes().kubernetes


def test_missing_tools_are_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool in {"jq", "runc"} else tool)

    with pytest.raises(SetupError, match=r"apt-get install --no-install-recommends runc jq$"):
        machine.require_podman()


def test_podman_without_root_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(SetupError, match=r"start Docker, or run this as root"):
        machine.require_podman()


def test_a_command_that_fails_is_shown_with_its_last_words() -> None:
    with pytest.raises(SetupError, match=r"exit code 3 of: bash -c echo no >&2; exit 3\nno$"):
        machine.run("bash", "-c", "echo no >&2; exit 3")


def test_what_nodes_changed_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(sysctls, "_ALL", tmp_path / "sys")
    monkeypatch.setattr(sysctls, "_KEPT", tmp_path / "kept.json")
    limit = tmp_path / "sys/fs/file-max"
    limit.parent.mkdir(parents=True)
    limit.write_text("1000\n")

    sysctls.keep()
    limit.write_text("2000\n")
    sysctls.keep()  # a second cluster, before the first was taken down
    sysctls.restore()

    assert limit.read_text() == "1000"
    assert not (tmp_path / "kept.json").exists()


def test_memory_is_not_promised_twice_while_nodes_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(sysctls, "_ALL", tmp_path / "sys")
    monkeypatch.setattr(sysctls, "_KEPT", tmp_path / "kept.json")
    overcommit, limit = tmp_path / "sys/vm/overcommit_memory", tmp_path / "sys/fs/file-max"
    for file in (overcommit, limit):
        file.parent.mkdir(parents=True)
        file.write_text("0\n")

    sysctls.restore_kubelets()  # nothing was kept: nothing is known
    sysctls.keep()
    for file in (overcommit, limit):
        file.write_text("1\n")
    sysctls.restore_kubelets()

    assert (overcommit.read_text(), limit.read_text()) == ("0", "1\n")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The images of an engine that runs anything, on a disk with room."""
    made: list[str] = []
    monkeypatch.setattr(Engine, "has_image", lambda _, name: name in made)
    monkeypatch.setattr(Engine, "__call__", lambda *_: "")
    monkeypatch.setattr(cluster, "HOME", tmp_path)
    monkeypatch.setattr(cluster, "_ROOM_BYTES", 0)
    return made


def test_a_cluster_is_soon_up_once_its_images_were_made(made: list[str]) -> None:
    on_docker, on_podman = (Kind(Engine(name), print) for name in ("docker", "podman"))

    made.extend(map(images.name_of, images.DOCKERFILES))
    on_docker.require_warm()  # kind has a node image for it
    with pytest.raises(SetupError, match="not made yet"):
        on_podman.require_warm()

    made.append(cluster._node_image_name())
    on_podman.require_warm()
    made.remove("localhost/spotrun-trainer:e2e")
    for kind in (on_docker, on_podman):
        with pytest.raises(SetupError, match="not made yet"):
            kind.require_warm()


def test_a_cluster_is_not_soon_up_where_it_has_no_room(
    made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made.extend(map(images.name_of, images.DOCKERFILES))
    monkeypatch.setattr(cluster, "_ROOM_BYTES", 1e18)

    with pytest.raises(SetupError, match=r"GB are free where .* make room there"):
        Kind(Engine("docker"), print).require_warm()


def test_only_files_of_images_in_use_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "SHARED", tmp_path)
    new, running, old = (letter * 64 for letter in "abc")
    for digest in (new, running, old):
        (tmp_path / digest).mkdir()
        (tmp_path / f"{digest}.tar").touch()
    (tmp_path / f"{'d' * 64}.partial").mkdir()  # cut short

    images.forget_others([f"localhost/a:{new[:12]}", f"localhost/a:{running[:12]}", "registry/b:1"])

    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {new, f"{new}.tar", running, f"{running}.tar"}
