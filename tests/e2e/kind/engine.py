"""The engine of nodes and image builds: Docker, or podman with settings and storage of its own."""

import os
import resource
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.e2e.kind.machine import HOME, SetupError, require_podman, run, succeeds

_CONTAINERS = """\
[containers]
pids_limit = 0
# podman's own defaults need CAP_SYS_RESOURCE
default_ulimits = ["nofile={most}:{most}", "nproc={most}:{most}"]
[engine]
runtime = "runc"  # crun refuses a hybrid cgroup hierarchy
cgroup_manager = "cgroupfs"
events_logger = "file"
# Nodes that are deleted are killed at once: podman trips over one that ends while it waits.
stop_timeout = 0
tmp_dir = "{folder}/tmp"
volume_path = "{folder}/volumes"
[network]
network_backend = "netavark"  # kind needs name resolution, which "cni" lacks
network_config_dir = "{folder}/networks"
"""


@dataclass(frozen=True)
class Engine:
    """A container engine, by the commands that Docker and podman have in common."""

    program: str
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_podman(self) -> bool:
        """Podman builds in our own storage, and has no stock images to start from."""
        return self.program == "podman"

    def __call__(self, *arguments: str | Path, given: str | None = None) -> str:
        """Run one of its commands and return what it prints."""
        return run(self.program, *arguments, environment=self.environment, given=given)

    @contextmanager
    def stream(self, *arguments: str) -> Iterator[IO[bytes]]:
        """Run one of its commands and read what it prints while it does."""
        command = [self.program, *arguments]
        environment = {**os.environ, **self.environment}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
            assert process.stdout is not None
            yield process.stdout
        if process.returncode:
            raise SetupError(f"exit code {process.returncode} of: {' '.join(command)}")

    def has_image(self, name: str) -> bool:
        """Whether an image of this name is there."""
        return bool(self("image", "ls", "--quiet", name).strip())


def find_engine() -> Engine:
    """Docker where it answers, else podman; raises `SetupError` where neither can be."""
    if succeeds("docker", "info"):
        return Engine("docker")
    require_podman()
    return Engine("podman", _podman_settings(HOME / "podman"))


def _podman_settings(folder: Path) -> dict[str, str]:
    """Write podman's settings: for machines without systemd and without CAP_SYS_RESOURCE."""
    scratch = folder / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    Path("/lib/modules").mkdir(exist_ok=True)  # kind mounts it into each node
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    settings = folder / "containers.conf"
    settings.write_text(_CONTAINERS.format(folder=folder, most=most))
    storage = folder / "storage.conf"
    storage.write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/storage"\nrunroot = "{folder}/run"\n'
    )
    return {
        "CONTAINERS_CONF": str(settings),
        "CONTAINERS_STORAGE_CONF": str(storage),
        "KIND_EXPERIMENTAL_PROVIDER": "podman",
        # Layers are unpacked there while an image is built: not in a /tmp that may be memory.
        "TMPDIR": str(scratch),
    }
