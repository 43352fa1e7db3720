"""The processes of a control plane: their flags, start, readiness and end."""

import http.client
import os
import signal
import ssl
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from devcluster.access import Access
from devcluster.addresses import Ports
from devcluster.certificates import Authority, KeyPair

COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""The programs of the control plane, in the order of starting."""

ExtraFlags = Mapping[str, Sequence[str]]

_SERVICE_RANGE = "10.0.0.0/16"  # never routed here: there is no kube-proxy
_READY_SECONDS = 60


class ControlPlaneError(Exception):
    """The control plane does not start; the message names the log with the cause."""


@dataclass(frozen=True)
class Identities:
    """The certificates of all components and users."""

    ca_file: Path
    api_server: KeyPair
    kubelet: KeyPair
    kubelet_client: KeyPair
    tokens: KeyPair
    admin: KeyPair
    controller_manager: KeyPair
    scheduler: KeyPair


@dataclass(frozen=True)
class Layout:
    """The folders, addresses and certificates of one control plane."""

    directory: Path
    logs: Path
    host: str
    ports: Ports
    etcd: str  # its version, such as v3.7.3
    identities: Identities

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return f"https://{self.host}:{self.ports.api_server}"

    def access(self, who: KeyPair) -> Access:
        """The access of one of the identities to the API server."""
        return Access(self.server, self.identities.ca_file, who.cert_file, who.key_file)

    def log(self, component: str) -> Path:
        """Return the file that a component logs to."""
        return self.logs / f"{component}.log"


def issue_identities(authority: Authority, host: str) -> Identities:
    """Make every certificate that a control plane on `host` and its kubelets need."""
    names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
    return Identities(
        ca_file=authority.ca_file,
        api_server=authority.serving("apiserver", host, "127.0.0.1", "10.0.0.1", *names),
        kubelet=authority.serving("kubelet", host, "127.0.0.1", "localhost"),
        kubelet_client=authority.client("kube-apiserver-kubelet-client", "system:masters"),
        tokens=authority.token_keys(),
        admin=authority.client("admin", "system:masters"),
        controller_manager=authority.client("system:kube-controller-manager"),
        scheduler=authority.client("system:kube-scheduler"),
    )


def flags(component: str, layout: Layout) -> list[str]:
    """The command line of a component, without the program."""
    if component == "etcd":
        return _etcd_flags(layout)
    if component == "kube-apiserver":
        return _api_server_flags(layout)
    common = [
        f"--kubeconfig={layout.directory}/{component}.kubeconfig",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=500",  # with the defaults of 20-50 a load test would measure these limits
        "--kube-api-burst=1000",
    ]
    if component == "kube-scheduler":
        return common
    return [
        *common,
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={layout.identities.tokens.key_file}",
        f"--root-ca-file={layout.identities.ca_file}",
    ]


def _etcd_flags(layout: Layout) -> list[str]:
    client = _etcd(layout)
    peer = f"http://{layout.host}:{layout.ports.etcd_peers}"
    return [
        f"--data-dir={layout.directory}/etcd",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        # As kubeadm sets it. Without it there are no bookmarks for a kind without changes.
        f"--{_experimental(layout.etcd)}watch-progress-notify-interval=5s",
        "--unsafe-no-fsync",  # the data need not outlive the cluster: no wait for the disk
        "--log-level=warn",
    ]


def _experimental(etcd: str) -> str:
    """Return the prefix of some flags in etcd 3.5, which Kubernetes before 1.34 uses."""
    return "experimental-" if etcd.startswith("v3.5.") else ""


def _etcd(layout: Layout) -> str:
    return f"http://{layout.host}:{layout.ports.etcd}"


def _api_server_flags(layout: Layout) -> list[str]:
    ids = layout.identities
    return [
        f"--etcd-servers={_etcd(layout)}",
        f"--bind-address={layout.host}",
        f"--advertise-address={layout.host}",
        f"--secure-port={layout.ports.api_server}",
        f"--tls-cert-file={ids.api_server.cert_file}",
        f"--tls-private-key-file={ids.api_server.key_file}",
        f"--client-ca-file={ids.ca_file}",
        f"--kubelet-certificate-authority={ids.ca_file}",
        f"--kubelet-client-certificate={ids.kubelet_client.cert_file}",
        f"--kubelet-client-key={ids.kubelet_client.key_file}",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={ids.tokens.cert_file}",
        f"--service-account-signing-key-file={ids.tokens.key_file}",
        "--authorization-mode=Node,RBAC",
        f"--service-cluster-ip-range={_SERVICE_RANGE}",
        "--allow-privileged=true",
        "--endpoint-reconciler-type=none",  # it refuses loopback, and no pod here uses a Service
    ]


@dataclass
class ControlPlane:
    """The running processes; a fault test may kill each of them and start it again."""

    layout: Layout
    binaries: Mapping[str, Path]
    extra_flags: ExtraFlags
    environment: Mapping[str, str]
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start_all(self) -> None:
        """Start every component; return when the API server is ready and pods can be created."""
        self.start("etcd")
        self.start("kube-apiserver")
        self.wait_ready()
        self.start("kube-controller-manager")
        self.start("kube-scheduler")
        # No pod can be created without it; the controller manager creates it soon after its start.
        self._wait_for("/api/v1/namespaces/default/serviceaccounts/default")

    def start(self, component: str) -> None:
        """Start one component; its output is appended to its log."""
        assert component not in self._running, f"{component} runs already"
        command = [str(self.binaries[component]), *flags(component, self.layout)]
        with self.layout.log(component).open("ab") as log:
            self._running[component] = subprocess.Popen(
                [*command, *self.extra_flags.get(component, ())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.layout.directory,
                env={**os.environ, **self.environment},
                start_new_session=True,  # only this process handles Ctrl-C, not these
            )

    def kill(self, component: str) -> None:
        """SIGKILL one component: on SIGTERM the API server waits a minute for open watches."""
        process = self._running.pop(component)
        process.kill()
        process.wait()

    def pause(self, component: str) -> None:
        """SIGSTOP: after the return, the component exists but does not answer."""
        process = self._running[component]
        process.send_signal(signal.SIGSTOP)
        # Its threads stop one after the other; on a busy machine some may answer until then.
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self, component: str) -> None:
        """Undo `pause`."""
        self._running[component].send_signal(signal.SIGCONT)

    def kill_all(self) -> None:
        """End everything; clients end first, so that none logs a lost server."""
        for component in reversed(COMPONENTS):
            if component in self._running:
                self.kill(component)

    def pids(self) -> dict[str, int]:
        """The process ID of each running component."""
        return {
            name: process.pid for name, process in self._running.items() if process.poll() is None
        }

    def wait_ready(self) -> None:
        """Return when the API server says that it is ready."""
        self._wait_for("/readyz")

    def _wait_for(self, path: str) -> None:
        access = self.layout.access(self.layout.identities.admin)
        deadline = time.monotonic() + _READY_SECONDS
        answer = ""
        while time.monotonic() < deadline:
            self._check_alive()
            answer = _get(self.layout, access.ssl_context(), path)
            if answer == "200":
                return
            time.sleep(0.05)  # there is no event to wait for
        raise ControlPlaneError(
            f"the API server did not serve {path} within {_READY_SECONDS} s ({answer}).\n"
            f"{self._log_tail('kube-apiserver')}"
        )

    def _check_alive(self) -> None:
        for component, process in self._running.items():
            if process.poll() is not None:
                raise ControlPlaneError(
                    f"{component} ended (exit {process.returncode}).\n{self._log_tail(component)}"
                )

    def _log_tail(self, component: str) -> str:
        log = self.layout.log(component)
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return "\n".join([f"The end of {log}:", *lines[-8:]])


def _get(layout: Layout, context: ssl.SSLContext, path: str) -> str:
    """The status of an answer, or why there is none."""
    port = layout.ports.api_server
    connection = http.client.HTTPSConnection(layout.host, port, context=context, timeout=5)
    try:
        connection.request("GET", path)
        return str(connection.getresponse().status)
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    finally:
        connection.close()
