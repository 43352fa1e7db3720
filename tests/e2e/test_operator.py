"""The operator in its pods: real Leases, real tokens of real kubelets."""

from typing import Any

from devcluster.client import Manifest, at
from tests.e2e.installation import SYSTEM
from tests.e2e.site import Site, durable_step, failures_of, is_whole

LEASES = at("leases", SYSTEM, group="coordination.k8s.io/v1")

ASK = """
import pathlib, ssl, sys, urllib.error, urllib.request
token = pathlib.Path('/token/token').read_text()
request = urllib.request.Request(sys.argv[1], headers={'Authorization': 'Bearer ' + token})
try:
    urllib.request.urlopen(request, context=ssl._create_unverified_context())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


async def leader(site: Site) -> Manifest:
    """The operator's pod whose address is in the Lease."""
    lease = await site.kube.get(f"{LEASES}/spotrun")
    address = lease["spec"]["holderIdentity"].partition(":")[0]
    pods = await site.kube.list(at("pods", SYSTEM))
    (found,) = (pod for pod in pods if pod["status"].get("podIP") == address)
    return found


async def test_a_job_goes_on_under_another_leader(site: Site) -> None:
    await site.train(steps=1_500, workers=2, every="5s")
    before = await site.until(lambda s: is_whole(s) and durable_step(s) > 0)
    first = await leader(site)

    await site.kubectl("delete", "pod", first["metadata"]["name"], f"--namespace={SYSTEM}", "--now")

    def is_another(lease: Manifest | None) -> bool:
        held = (lease or {}).get("spec", {}).get("holderIdentity", "")
        return bool(held) and not held.startswith(f"{first['status']['podIP']}:")

    await site.kube.until(LEASES, "spotrun", is_another, timeout_seconds=60)
    ended = await site.until_end()
    assert ended["phase"] == "Succeeded", ended["message"]
    assert ended["world"]["generation"] == before["world"]["generation"]
    assert failures_of(ended) == 0


async def test_a_token_of_another_pod_opens_nothing(site: Site) -> None:
    await site.train(steps=1_000, workers=1)
    await site.until(is_whole)  # it is ready, and said so with a token that was accepted
    (worker,) = await site.workers()
    path = f"v1/jobs/{site.namespace}/tiny-lm/workers/{worker['metadata']['name']}/world"
    asked = f"https://{(await leader(site))['status']['podIP']}:8443/{path}"

    await site.kube.create(at("pods", site.namespace), stranger(site, asked))
    ended = "--for=jsonpath={.status.phase}=Succeeded"
    await site.kubectl("wait", "pod/stranger", ended, "--timeout=120s")

    said = await site.kubectl("logs", "stranger")
    assert said.startswith("403 ")
    assert "the token does not belong to the pod" in said


def stranger(site: Site, url: str) -> dict[str, Any]:
    """A pod of the namespace with a token for the operator, as anybody may have one."""
    token = {"path": "token", "audience": "spotrun.dev"}
    return {
        "metadata": {"name": "stranger"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "stranger",
                    "image": site.image,
                    "command": ["python3", "-c", ASK, url],
                    "volumeMounts": [{"name": "token", "mountPath": "/token"}],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "volumes": [
                {
                    "name": "token",
                    "projected": {"sources": [{"serviceAccountToken": token}]},
                }
            ],
        },
    }
