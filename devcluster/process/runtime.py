"""Makes sandboxes out of local processes: the runtime of process nodes."""

from collections.abc import Callable

from devcluster.kubelet.runtime import Manifest, Sandbox
from devcluster.process.downward import Place, host_ip
from devcluster.process.objects import Api
from devcluster.process.options import Options
from devcluster.process.sandbox import ProcessSandbox


class ProcessRuntime:
    """Implements `Runtime`; one may serve any number of nodes."""

    def __init__(self, api: Api, options: Options, address: Callable[[], str]) -> None:
        """Serve pods that get their addresses from `address()`, unless on the host's network."""
        self._api = api
        self._options = options
        self._address = address

    async def sandbox(self, pod: Manifest, node: Manifest) -> Sandbox:
        """Make a pod's directory and volumes; raises StartError, and then leaves no files."""
        pod_ip = host_ip(node) if pod["spec"].get("hostNetwork") else self._address()
        made = ProcessSandbox(self._api, self._options, Place(pod, node, pod_ip))
        try:
            await made.prepare()
        except BaseException:
            await made.remove()
            raise
        return made
