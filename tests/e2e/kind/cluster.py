"""The cluster: kind's nodes with our images on them, and what can happen to a node."""

import hashlib
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import yaml

from devcluster.client import Manifest
from tests.e2e.files import SharedFolder
from tests.e2e.kind import images, programs, sysctls
from tests.e2e.kind.engine import Engine, find_engine
from tests.e2e.kind.machine import HOME, SetupError, run
from tests.e2e.kind.nodes import CLUSTER, WORKERS, kind_config

Progress = Callable[[str], None]

KUBECONFIG = HOME / "kubeconfig"
FILES = HOME / "files"
"""Stands in for a file server: every node has it at `FILES_AT_NODES`."""
FILES_AT_NODES = "/files"
_ROOM_BYTES = 20e9
"""The room for a trainer's image with another PyTorch: its layer, once more while that is written,
and unpacked for the nodes."""
_NODE_IMAGE = "localhost/spotrun-kind-node"
_HERE = Path(__file__).parent
_RECIPE = _HERE / "node-image.sh"


@dataclass(frozen=True)
class Kind:
    """kind on an engine, and the one cluster that it holds for us."""

    engine: Engine
    progress: Progress

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of its admin."""
        return KUBECONFIG

    @property
    def kubectl_command(self) -> tuple[str | Path, ...]:
        """kubectl of the version of its nodes, told to speak to it."""
        program = programs.kubectl(self.progress) if self.engine.is_podman else "kubectl"
        return (program, f"--kubeconfig={KUBECONFIG}")

    @property
    def files(self) -> SharedFolder:
        """Claims are folders of this machine."""
        return SharedFolder(self.kubectl, FILES, FILES_AT_NODES)

    @property
    def placement(self) -> Manifest:
        """Not on the node on demand: that is the operator's."""
        return {"capacity": "Spot"}

    @property
    def operator_values(self) -> tuple[str, ...]:
        """Away from spot nodes, which tests take away."""
        return ('--set-json=nodeSelector={"karpenter.sh/capacity-type": "on-demand"}',)

    @property
    def patience_seconds(self) -> float:
        """Each worker imports torch, and all nodes share the cores of one machine."""
        return 240

    def up(self) -> dict[str, str]:
        """Start the cluster unless it runs and bring our images to it; their names, by purpose."""
        with ThreadPoolExecutor() as pool:
            node_image = pool.submit(self._node_image)  # compiled while pip loads PyTorch
            shared = images.build(self.engine, self.progress)
            names = {purpose: image.name for purpose, image in shared.items()}
            if not self._runs():
                self.down()
                self._create(node_image.result())
            images.forget_others([*names.values(), *self._images_of_pods()])
            list(pool.map(lambda node: self._share(node, shared.values()), self._nodes()))
        return names

    def require_warm(self) -> None:
        """Raise `SetupError` with the reason why `up` would fail here or take more than minutes."""
        made = [images.name_of(purpose) for purpose in images.DOCKERFILES]
        if self.engine.is_podman:
            made.append(_node_image_name())
        if not all(map(self.engine.has_image, made)):
            raise SetupError(
                "images and programs are not made yet, which takes a quarter of an hour: `make e2e`"
            )
        free_bytes = shutil.disk_usage(HOME).free
        if free_bytes < _ROOM_BYTES:
            raise SetupError(
                f"{free_bytes / 1e9:.0f} GB are free where {HOME} is, and {_ROOM_BYTES / 1e9:.0f} "
                "may be needed: make room there, or set XDG_CACHE_HOME"
            )
        # A network would change settings of this machine, and nobody would put them back.
        self.engine("run", "--rm", "--privileged", "--network=none", "--entrypoint=true", made[-1])

    def down(self) -> None:
        """Remove the cluster and all that it left on this machine; images and programs are kept."""
        if self._runs():
            with suppress(SetupError):  # its first node may be stopped
                self._empty_files()
        self._kind("delete", "cluster", "--name", CLUSTER, "--kubeconfig", KUBECONFIG)
        networks = self.engine("network", "ls", "--format={{.Name}}").split()
        if self.engine.is_podman and "kind" in networks:
            self.engine("network", "rm", "kind")
        KUBECONFIG.unlink(missing_ok=True)
        shutil.rmtree(FILES, ignore_errors=True)
        if FILES.exists():
            self.progress(f"files of workers' users are left in {FILES}: remove it as root")
        sysctls.restore()

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """Run kubectl against it."""
        return run(*self.kubectl_command, *arguments, given=given)

    def cut_power(self, node: str) -> None:
        """Take a node away as a lost machine goes: without a word to anybody."""
        self.engine("exec", node, "ip", "link", "set", "eth0", "down")
        self.engine("kill", node)

    def shut_down(self, node: str) -> None:
        """End a node as an operating system does that is told to: all processes get SIGTERM."""
        self.engine("stop", "--time=90", node)

    def give_power(self, node: str) -> None:
        """Boot a node again that was taken away; it is ready some seconds later."""
        self.engine("wait", node)
        if self.engine.is_podman:
            # Podman cleans up behind the kill. Started before that is done, a node would boot into
            # the network in which it died: with its link down, and never heard again.
            self.engine("container", "cleanup", node)
        self.engine("start", node)

    def tame(self) -> None:
        """Undo what kubelets that have just started did to this machine."""
        sysctls.restore_kubelets()

    def cut_off(self, node: str) -> None:
        """Let nothing pass between a node and all others, though both run on: a partition."""
        self._filter(node, "--insert")

    def reconnect(self, node: str) -> None:
        """End a partition."""
        self._filter(node, "--delete")

    def _filter(self, node: str, verb: str) -> None:
        for chain, side in (("PREROUTING", "--in-interface"), ("POSTROUTING", "--out-interface")):
            rule = (verb, chain, side, "eth0", "--jump", "DROP")
            self.engine("exec", node, "iptables", "--table", "mangle", *rule)

    def _runs(self) -> bool:
        listed = self._kind("get", "clusters").split()
        return CLUSTER in listed and KUBECONFIG.exists() and len(self._nodes()) == len(WORKERS) + 1

    def _nodes(self) -> list[str]:
        return self._kind("get", "nodes", "--name", CLUSTER).split()

    def _create(self, image: Sequence[str]) -> None:
        sysctls.keep()
        for folder in (images.SHARED, FILES):
            folder.mkdir(parents=True, exist_ok=True)
        FILES.chmod(0o777)  # workers write checkpoints there as users of their own
        config = kind_config(WORKERS, {images.SHARED: images.AT_NODES, FILES: FILES_AT_NODES})
        self.progress(f"starting {len(WORKERS) + 1} nodes")
        command = ("create", "cluster", "--config=-", "--kubeconfig", KUBECONFIG, "--wait=3m")
        self._kind(*command, *image, given=yaml.safe_dump(config))
        self.tame()

    def _empty_files(self) -> None:
        """Workers write as users of their own, whose files only root can remove."""
        first = f"{CLUSTER}-control-plane"
        self.engine("exec", first, "find", FILES_AT_NODES, "-mindepth", "1", "-delete")

    def _images_of_pods(self) -> list[str]:
        return self.kubectl("get", "pods", "-A", "--output=jsonpath={..image}").split()

    def _node_image(self) -> list[str]:
        """Ours where no registry is at hand: kind's own comes from one."""
        if not self.engine.is_podman:
            return []
        name = _node_image_name()
        if not self.engine.has_image(name):
            folder = programs.node_programs(self.progress)
            self.progress("making a node image (once; about a minute)")
            run(_RECIPE, folder, programs.KIND, name, environment=self.engine.environment)
        return ["--image", name]

    def _share(self, node: str, shared: Iterable[images.Shared]) -> None:
        script = (_HERE / "share.sh").read_text()
        for image in shared:
            told = (image.digest, image.files, image.archive)
            self.engine("exec", "-i", node, "bash", "-s", *told, given=script)

    def _kind(self, *arguments: str | Path, given: str | None = None) -> str:
        program = programs.kind(self.progress)
        return run(program, *arguments, environment=self.engine.environment, given=given)


def _node_image_name() -> str:
    digest = hashlib.sha256(_RECIPE.read_bytes()).hexdigest()[:12]
    return f"{_NODE_IMAGE}:{programs.key()}-{digest}"


def find_kind(progress: Progress) -> Kind:
    """kind on whichever engine this machine has; raises `SetupError` with what to install."""
    return Kind(find_engine(), progress)
