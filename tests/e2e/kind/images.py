"""Our images: built from our Dockerfiles, then unpacked once on this machine for all nodes.

A training image has gigabytes, and `kind load` would copy them into each node. Here an image's
files lie in one folder that is mounted read-only into the nodes, and what a node imports is a
stand-in: the image's own configuration over a layer of a few bytes, in whose place the node's
containerd finds that folder (`share.sh`). Containers run on an overlay of it, as on any image.
"""

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.kind.engine import Engine
from tests.e2e.kind.machine import HOME, run

Progress = Callable[[str], None]

SHARED = HOME / "images"
AT_NODES = "/images"
DOCKERFILES = {"spotrun-operator": "operator", "spotrun-trainer": "trainer_image"}
_BASE = "localhost/spotrun-python:bookworm"
_PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
_CERTIFICATES = "/etc/ssl/certs"
_TAG_LETTERS = 12
STOCK = "stock-pytorch"
_OURS = ("spotrun", "spotrun_trainer", "spotrun-*.dist-info")
"""The files of ours that pip has installed into a Python."""


@dataclass(frozen=True)
class Shared:
    """An image as nodes find it."""

    name: str  # localhost/spotrun-trainer:0123456789ab
    digest: str  # of the layer that stands in

    @property
    def files(self) -> str:
        """The image's unpacked files, as a node sees them."""
        return f"{AT_NODES}/{self.digest}"

    @property
    def archive(self) -> str:
        """The image's stand-in, as a node sees it."""
        return f"{AT_NODES}/{self.digest}.tar"


def build(engine: Engine, progress: Progress) -> dict[str, Shared]:
    """Build both images from the working tree and unpack what is new of them."""
    options = _podman_options(engine, progress) if engine.is_podman else []
    options += [f"--build-arg={name}" for name in os.environ.get("E2E_BUILD_ARGS", "").split()]
    found = {}
    for name, folder in DOCKERFILES.items():
        progress(f"building {name} from {folder}/Dockerfile")
        image = name_of(name)
        engine("build", "-f", f"{folder}/Dockerfile", "-t", image, *options, ".")
        found[name] = _unpacked(engine, image, progress)
    found[STOCK] = stock(found["spotrun-trainer"], progress)
    if engine.is_podman:  # its storage is ours alone; what this build has used is still cached
        engine("image", "prune", "--force", "--filter=until=24h")
    return found


def stock(trainer: Shared, progress: Progress) -> Shared:
    """Return an image as others have it: a trainer's, with nothing of ours, of the same files.

    They are links, which take no room on the disk and none more in the page cache.
    """
    layer = _archive({"stock-of": trainer.digest.encode()})
    digest = hashlib.sha256(layer).hexdigest()
    made = Shared(f"localhost/{STOCK}:{digest[:_TAG_LETTERS]}", digest)
    folder = SHARED / digest
    if not folder.is_dir():
        progress(f"making {made.name} of the trainer's image")
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        run("cp", "--archive", "--link", SHARED / trainer.digest, partial)
        for path in [
            *(one for name in _OURS for one in partial.glob(f"usr/**/*-packages/{name}")),
            *partial.glob("usr/**/bin/spotrun"),
        ]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        partial.rename(folder)
    folder.with_suffix(".tar").write_bytes(_stand_in_of(made.name, trainer, layer))
    return made


def _stand_in_of(name: str, of: Shared, layer: bytes) -> bytes:
    """A stand-in with the settings of another one: its user and its variables."""
    with tarfile.open(SHARED / f"{of.digest}.tar") as archive:
        file = archive.extractfile("config.json")
        assert file is not None, "it was written with one"
        config = json.load(file)
    described = {
        "Architecture": config["architecture"],
        "Os": config["os"],
        "Config": config["config"],
    }
    return stand_in(name, described, layer)


def name_of(purpose: str) -> str:
    """The name of the image that was built last for a purpose."""
    return f"localhost/{purpose}:e2e"


def _podman_options(engine: Engine, progress: Progress) -> list[str]:
    """Return podman's options: a base of our own making; pip trusts whom this machine trusts."""
    if not engine.has_image(_BASE):
        progress("making a base image from Debian packages (once)")
        _make_base(engine)
    volume = f"{_CERTIFICATES}:{_CERTIFICATES}:ro"
    return [f"--build-arg=BASE={_BASE}", "--isolation=chroot", f"--volume={volume}"]


def _make_base(engine: Engine) -> None:
    folder = HOME / "base"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        options = ("--variant=minbase", f"--include={_PACKAGES}")
        run("debootstrap", *options, "bookworm", folder / "root")
        archive = folder / "root.tar"
        run("tar", "-C", folder / "root", "--numeric-owner", "-cf", archive, ".")
        engine("import", archive, _BASE)
    finally:
        shutil.rmtree(folder)


def _unpacked(engine: Engine, image: str, progress: Progress) -> Shared:
    (description,) = json.loads(engine("image", "inspect", image))
    layer = layer_of(description["Id"])
    digest = hashlib.sha256(layer).hexdigest()
    # A tag that says what is in it: who runs an older one notices that there is a new one.
    shared = Shared(f"{image.rpartition(':')[0]}:{digest[:_TAG_LETTERS]}", digest)
    folder = SHARED / digest
    if not folder.is_dir():
        progress(f"unpacking {image} for all nodes")
        _export(engine, image, folder)
    folder.with_suffix(".tar").write_bytes(stand_in(shared.name, description, layer))
    return shared


def _export(engine: Engine, image: str, folder: Path) -> None:
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    container = engine("create", image).strip()
    try:
        with engine.stream("export", container) as archive:
            unpack = ("tar", "--directory", str(partial), "--numeric-owner", "-xpf", "-")
            subprocess.run(unpack, stdin=archive, check=True)
    finally:
        engine("rm", container)
    partial.rename(folder)


def layer_of(image_id: str) -> bytes:
    """The layer that stands for all those of an image."""
    return _archive({"image-id": image_id.encode()})


def stand_in(image: str, description: dict[str, Any], layer: bytes) -> bytes:
    """An archive as `docker save` makes it, of an image with one small layer."""
    config = {
        "architecture": description["Architecture"],
        "os": description["Os"],
        "config": description["Config"],
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [image], "Layers": ["layer.tar"]}]
    return _archive(
        {
            "manifest.json": json.dumps(manifest).encode(),
            "config.json": json.dumps(config).encode(),
            "layer.tar": layer,
        }
    )


def _archive(files: dict[str, bytes]) -> bytes:
    """A tar archive of these files, the same bytes each time."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def forget_others(used: Iterable[str]) -> None:
    """Remove what earlier builds have unpacked, but for the images of these names."""
    tags = {name.rpartition(":")[2] for name in used}
    for path in SHARED.iterdir():
        if path.name[:_TAG_LETTERS] not in tags:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
