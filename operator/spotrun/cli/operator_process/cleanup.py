"""`spotrun cleanup`: release the pods that wait for the operator, from flags to exit code."""

import asyncio
import sys
from importlib.metadata import version

from spotrun.act.uninstall import (
    UndoneError,
    let_go_of_jobs,
    let_go_of_pods,
    stop,
    until_nobody_leads,
)
from spotrun.kube.errors import KubeError
from spotrun.kube.resource import Key
from spotrun.kube.rest.access import AccessError, Credentials
from spotrun.kube.rest.client import Client
from spotrun.kube.rest.transport import Transport
from spotrun.runtime import cluster_access
from spotrun.runtime.options import Options

UNDONE, WRONGLY_STARTED = 1, 2

_ATTEMPTS = 8
"""Two minutes with the usual Lease: a replica that is told to end takes at most 30 s."""


def run(options: Options, deployment: str | None) -> int:
    """Clean up and return the exit code."""
    try:
        asyncio.run(_clean_up(options, deployment))
    except (AccessError, ValueError) as error:
        print(f"spotrun cleanup: {error}", file=sys.stderr)
        return WRONGLY_STARTED
    except UndoneError as error:
        print(f"spotrun cleanup: not done, {error}", file=sys.stderr)
        return UNDONE
    except (KubeError, OSError) as error:
        print(
            f"spotrun cleanup: not done, {error}. It may be run again; it needs the rights to get "
            "the Lease, to list and patch pods and trainingjobs and, with --stop-deployment, to "
            "patch deployments/scale",
            file=sys.stderr,
        )
        return UNDONE
    return 0


async def _clean_up(options: Options, deployment: str | None) -> None:
    home = cluster_access.own_namespace(options)
    credentials = Credentials(cluster_access.access(options))
    await credentials.current()  # a wrong kubeconfig raises here: not a failure of the cleanup
    async with Transport(credentials, user_agent=f"spotrun/{version('spotrun')}") as transport:
        client = Client(transport, field_manager="spotrun")
        if deployment is not None:
            print(f"stopping deployment/{deployment} in {home}", flush=True)
            await stop(client, Key(home, deployment))
        print(f"checking for some seconds that no operator renews the Lease in {home}", flush=True)
        await until_nobody_leads(client, home, attempts=_ATTEMPTS if deployment else 1)
        released = await let_go_of_pods(client, options.watch_namespace)
        jobs = await let_go_of_jobs(client, options.watch_namespace)
    for job, number in sorted(released.items()):
        print(f"{job.namespace}/{job.name}: {number} pods released")
    for job in sorted(jobs):
        print(f"{job.namespace}/{job.name}: released, no SpendLimit counts it any more")
    print("no pod waits for spotrun")
