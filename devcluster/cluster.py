"""A cluster as a library: a real Kubernetes for as long as a `with Cluster()` block lasts."""

import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from devcluster import binaries, reaper
from devcluster.access import Access, kubeconfig
from devcluster.addresses import AddressBlock, claim_block
from devcluster.certificates import Authority, server_context
from devcluster.controlplane import (
    ControlPlane,
    ExtraFlags,
    Layout,
    issue_identities,
)

MARKER = "DEVCLUSTER_MARKER"
"""The environment variable that marks every process of a cluster, to find and end it."""


def to_stderr(line: str) -> None:
    """Print progress to standard error, so that it does not mix with output."""
    print(f"devcluster: {line}", file=sys.stderr, flush=True)


class Cluster:
    """One control plane in one directory; it ends with its `with` block, or with this process.

    Several can run at the same time. If this process dies, a watchdog ends the rest and removes
    the directory.
    """

    def __init__(
        self,
        kubernetes: str = "current",
        *,
        directory: Path | None = None,
        logs: Path | None = None,
        extra_flags: ExtraFlags | None = None,
        progress: binaries.Progress = to_stderr,
    ) -> None:
        """Prepare a cluster of one pinned Kubernetes; `logs` names a folder that outlives it."""
        self.pin = binaries.pin(kubernetes)
        self.marker = uuid.uuid4().hex
        self._directory = directory
        self._logs = logs
        self._extra_flags = extra_flags or {}
        self._progress = progress

    def __enter__(self) -> Self:
        self.binaries = binaries.ensure(self.pin, self._progress)
        self.directory = self._make_directory()
        self.memory = Path("/dev/shm") / f"devcluster-{self.marker}"  # noqa: S108 - named by a UUID
        self._watchdog = self._start_watchdog()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End every process of the cluster and remove its directory."""
        if hasattr(self, "control"):
            self.control.kill_all()
        assert self._watchdog.stdin is not None
        self._watchdog.stdin.close()  # it then does the same as after our death
        self._watchdog.wait()
        if hasattr(self, "block"):
            self.block.close()

    @property
    def admin(self) -> Access:
        """The API server with the rights of an administrator."""
        return self.control.layout.access(self.control.layout.identities.admin)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that a shell needs to work with this cluster."""
        return {
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": str(self.directory / "kubectl-cache"),
            "PATH": f"{self.binaries['kubectl'].parent}{os.pathsep}{os.environ['PATH']}",
        }

    def kubectl(
        self,
        *arguments: str,
        input: str | None = None,  # noqa: A002 - as in subprocess
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl of the cluster's own version as its admin."""
        ran = subprocess.run(
            [self.binaries["kubectl"], *arguments],
            input=input,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        if check and ran.returncode:
            raise RuntimeError(
                f"kubectl {' '.join(arguments)} failed ({ran.returncode}): {ran.stderr.strip()}"
            )
        return ran

    def kubelet_tls(self) -> ssl.SSLContext:
        """Return the TLS settings of the kubelets' server, which accepts only the API server."""
        identities = self.control.layout.identities
        return server_context(identities.kubelet, identities.ca_file)

    def _make_directory(self) -> Path:
        if self._directory is None:
            return Path(tempfile.mkdtemp(prefix="devcluster-"))
        self._directory.mkdir(parents=True, exist_ok=True)
        return self._directory.resolve()

    def _start_watchdog(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, reaper.__file__, self.marker, str(self.directory), str(self.memory)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def _start(self) -> None:
        logs = self._logs or self.directory / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        self.block: AddressBlock = claim_block()
        authority = Authority(self.directory / "pki")
        identities = issue_identities(authority, self.block.host)
        layout = Layout(
            self.directory, logs, self.block.host, self.block.ports, self.pin.etcd, identities
        )
        self.kubeconfig = self._write_kubeconfigs(layout)
        self.control = ControlPlane(layout, self.binaries, self._extra_flags, {MARKER: self.marker})
        self.control.start_all()

    def _write_kubeconfigs(self, layout: Layout) -> Path:
        ids = layout.identities
        files: Mapping[str, Access] = {
            "admin.kubeconfig": layout.access(ids.admin),
            "kube-controller-manager.kubeconfig": layout.access(ids.controller_manager),
            "kube-scheduler.kubeconfig": layout.access(ids.scheduler),
        }
        for name, access in files.items():
            (self.directory / name).write_text(kubeconfig(access))
        return self.directory / "admin.kubeconfig"


def remove_leftovers(directory: Path, marker: str) -> None:
    """End and remove the rest of a cluster whose owner and watchdog were both killed."""
    reaper.kill_marked(marker)
    for folder in (directory, Path("/dev/shm") / f"devcluster-{marker}"):  # noqa: S108 - named by a UUID
        shutil.rmtree(folder, ignore_errors=True)
