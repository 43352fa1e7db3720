"""A pod on this machine: its directory, its volumes and its containers."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from pathlib import Path

from devcluster import reaper
from devcluster.kubelet.runtime import Container, Manifest
from devcluster.process.container import NeverStarted, ProcessContainer, spawn
from devcluster.process.downward import Place
from devcluster.process.environment import variables
from devcluster.process.launch import Files, launch, volume_mounts
from devcluster.process.objects import Api, refusals_as
from devcluster.process.options import Options
from devcluster.process.tokens import TokenFile, issue, keep_fresh
from devcluster.process.volumes import Volumes


class ProcessSandbox:
    """Implements `Sandbox` with local processes."""

    def __init__(self, api: Api, options: Options, place: Place) -> None:
        self.pod_ip = place.pod_ip
        self._api = api
        self._options = options
        self._place = place
        # Part of the UID is enough, and the path of a unix socket may have at most 108 bytes.
        short = place.uid[:13]
        self._directory = options.root / short
        self._memory = options.pod_memory(short)
        self._volumes: dict[str, Path] = {}
        self._renewals: list[asyncio.Task[None]] = []
        self._started: dict[str, ProcessContainer | NeverStarted] = {}

    async def prepare(self) -> None:
        """Make the pod's directory and volumes; raises StartError."""
        self._directory.mkdir(parents=True, mode=0o700)  # volumes hold secrets
        for name in ("home", "tmp"):
            (self._directory / name).mkdir()
        volumes = Volumes(self._api, self._place, self._directory / "volumes", self._memory)
        with refusals_as("FailedMount"):
            for volume in self._place.pod["spec"].get("volumes") or ():
                self._volumes[volume["name"]], tokens = await volumes.provide(volume)
                for token in tokens:
                    self._renew(token, await issue(self._api, self._place, token))

    async def start(self, container: Manifest, restarts: int) -> Container:
        """Start one container of the pod's spec; raises StartError."""
        name = container["name"]
        options, place = self._options, self._place
        with refusals_as("CreateContainerConfigError"):
            known = await variables(self._api, place, container, options.service())
        mounts = volume_mounts(container, self._volumes, known)
        for entry, mount in zip(container.get("volumeMounts") or (), mounts, strict=True):
            if entry.get("subPath") or entry.get("subPathExpr"):
                _make_sub_path(mount.target)
        attempt = self._directory / "containers" / name / str(restarts)
        planned = launch(
            container,
            known,
            mounts,
            base=self._base(),
            images=options.images,
            files=Files(log=attempt / "log", termination_log=attempt / "termination-log"),
        )
        started = await spawn(planned, options.marker, f"{place.uid}/{name}/{restarts}")
        self._started[name] = started
        return started

    async def logs(
        self, container: str, *, follow: bool, tail: int | None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the output of the latest run; raises LookupError before the first one."""
        if container not in self._started:
            raise LookupError(f"container {container} of pod {self._place.name} has not started")
        async for chunk in self._started[container].log.read(follow=follow, tail=tail):
            yield chunk

    async def remove(self) -> None:
        """End the processes that still run, and remove all files of the pod."""
        for renewal in self._renewals:
            renewal.cancel()
        await asyncio.gather(*self._renewals, return_exceptions=True)
        for container in self._started.values():
            container.kill()
        for container in self._started.values():
            await container.wait()
        for directory in (self._directory, self._memory):
            await asyncio.to_thread(reaper.remove_tree, directory)

    def _renew(self, token: TokenFile, expires: datetime) -> None:
        renewal = asyncio.ensure_future(keep_fresh(self._api, self._place, token, expires))
        self._renewals.append(renewal)

    def _base(self) -> Mapping[str, str]:
        return {
            "PATH": self._options.path,
            "HOME": str(self._directory / "home"),
            "TMPDIR": str(self._directory / "tmp"),
            "LANG": "C.UTF-8",
            "HOSTNAME": self._place.pod["spec"].get("hostname") or self._place.name[:63],
            **({} if self._options.gpus else {"CUDA_VISIBLE_DEVICES": ""}),
        }


def _make_sub_path(target: Path) -> None:
    if not target.exists():
        target.mkdir(parents=True)
