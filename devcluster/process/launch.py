"""The command that is run for a container: a pure function of its spec and its environment."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster.kubelet.runtime import Manifest, StartError
from devcluster.process.expansion import expand
from devcluster.process.mounts import Mount, normalized, rewrite

_TERMINATION_LOG = "/dev/termination-log"


@dataclass(frozen=True)
class Files:
    """The files that one run of a container writes besides its volumes."""

    log: Path
    termination_log: Path


@dataclass(frozen=True)
class Launch:
    """A process to start."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    directory: str
    files: Files


def launch(
    container: Manifest,
    variables: Mapping[str, str],
    volume_mounts: Sequence[Mount],
    *,
    base: Mapping[str, str],
    images: Mapping[str, Sequence[str]],
    files: Files,
) -> Launch:
    """Return what to run for a container; raises StartError.

    `variables` come from the pod, and their values are mapped; `base` contains real paths, and the
    pod's variables override it.
    """
    termination_log = normalized(container.get("terminationMessagePath") or _TERMINATION_LOG)
    mounts = [*volume_mounts, Mount(termination_log, files.termination_log)]
    lookup = json.dumps({mount.path: str(mount.target) for mount in mounts})
    mapped = {name: rewrite(value, mounts) for name, value in variables.items()}
    return Launch(
        argv=tuple(
            rewrite(expand(word, variables), mounts) for word in _command_line(container, images)
        ),
        environment={
            **base,
            **mapped,
            "DEVCLUSTER_MOUNTS": lookup,
            "DEVCLUSTER_TERMINATION_LOG": str(files.termination_log),
        },
        directory=_directory(container, mounts, default=base["HOME"]),
        files=files,
    )


def volume_mounts(
    container: Manifest, places: Mapping[str, Path], variables: Mapping[str, str]
) -> list[Mount]:
    """Return a container's mounts, given the paths of the pod's volumes; raises StartError."""
    if container.get("volumeDevices"):
        raise StartError("CreateContainerError", "process nodes have no block devices")
    return [_mount(entry, places, variables) for entry in container.get("volumeMounts") or ()]


def _mount(entry: Manifest, places: Mapping[str, Path], variables: Mapping[str, str]) -> Mount:
    path = normalized(entry["mountPath"])
    if path == "/":
        raise StartError("CreateContainerError", "process nodes cannot mount a volume at /")
    below = entry.get("subPath") or expand(entry.get("subPathExpr") or "", variables)
    if "$(" in below or ".." in Path(below).parts or Path(below).is_absolute():
        raise StartError(
            "CreateContainerConfigError", f"subPath {below} is not a path in the volume"
        )
    return Mount(path, places[entry["name"]] / below)


def _command_line(container: Manifest, images: Mapping[str, Sequence[str]]) -> list[str]:
    command, args = container.get("command") or [], container.get("args") or []
    if command:
        return [*command, *args]
    image = container.get("image", "")
    if image in images:
        return [*images[image], *args]
    raise StartError(
        "CreateContainerError",
        f"no command: the entrypoint of image {image} is unknown, because process nodes pull no "
        "images. Give the container a `command`, or give the entrypoint in the option `images`.",
    )


def _directory(container: Manifest, mounts: Sequence[Mount], default: str) -> str:
    asked = container.get("workingDir")
    if not asked:
        return default
    directory = rewrite(normalized(asked), mounts)
    if directory == normalized(asked) and not Path(directory).is_dir():
        raise StartError(
            "CreateContainerError",
            f"workingDir {asked} is neither below a mount of this container nor a directory here",
        )
    return directory
