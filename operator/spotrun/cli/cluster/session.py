"""One command's connection to a cluster; it ends with an exit code, never with a traceback."""

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import msgspec

from spotrun.cli.cluster.exit_codes import NO_ANSWER, NOT_THERE, REFUSED
from spotrun.cli.cluster.troubles import NoSuchJob, Refused, Unreadable, in_words
from spotrun.cli.text.look import printable
from spotrun.kube.errors import KubeError
from spotrun.kube.rest.access import AccessError, Credentials, in_cluster
from spotrun.kube.rest.client import Client
from spotrun.kube.rest.kubeconfig import Chosen, choose, files_named
from spotrun.kube.rest.transport import Transport

_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True)
class Cluster:
    """An open connection, and the namespace that the flags choose."""

    client: Client
    transport: Transport
    namespace: str
    context: str
    is_everywhere: bool = False

    @property
    def scope(self) -> str | None:
        """The namespace to list, None for all."""
        return None if self.is_everywhere else self.namespace


Work = Callable[[Cluster], Awaitable[int]]


def ask(chosen: Namespace, work: Work) -> int:
    """Run a command with a cluster and return its exit code; failures are printed as sentences."""
    who = f"kubectl tjob {chosen.command}"
    try:
        return asyncio.run(_asked(chosen, work))
    except NoSuchJob as error:
        print(f"{who}: {printable(str(error))}", file=sys.stderr)
        return NOT_THERE
    except Refused as error:
        print(f"{who}: {printable(str(error))}", file=sys.stderr)
        return REFUSED
    except BrokenPipeError:
        raise  # the reader of the output is gone, which is no failure of the cluster
    except (msgspec.MsgspecError, Unreadable) as error:
        print(
            f"{who}: an object of the cluster cannot be read ({printable(str(error))}): its "
            "operator may be of another version than this command",
            file=sys.stderr,
        )
        return NO_ANSWER
    except (AccessError, KubeError, OSError) as error:
        print(f"{who}: {printable(in_words(error))}", file=sys.stderr)
        return NO_ANSWER


async def _asked(chosen: Namespace, work: Work) -> int:
    async with connected(chosen) as cluster:
        return await work(cluster)


def connected(chosen: Namespace) -> AbstractAsyncContextManager[Cluster]:
    """Connect as the flags say; raises AccessError."""
    return connection(
        "kubectl-tjob",
        kubeconfig=chosen.kubeconfig,
        context=chosen.context,
        namespace=chosen.namespace,
        is_everywhere=getattr(chosen, "all_namespaces", False),
    )


@asynccontextmanager
async def connection(
    program: str,
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    namespace: str | None = None,
    is_everywhere: bool = False,
) -> AsyncIterator[Cluster]:
    """Connect to the cluster of a kubeconfig, or of this pod; raises AccessError."""
    target = _target(kubeconfig, context)
    credentials = Credentials(target.load)
    await credentials.current()  # an unusable kubeconfig raises here, before any request
    async with Transport(credentials, user_agent=f"{program}/{version('spotrun')}") as transport:
        yield Cluster(
            Client(transport, field_manager=program),
            transport,
            namespace or target.namespace,
            target.context,
            is_everywhere,
        )


def _target(kubeconfig: str | None, context: str | None) -> Chosen:
    files = files_named(kubeconfig, os.environ, Path.home())
    if files:
        return choose(files, context)
    if not kubeconfig and not context and "KUBERNETES_SERVICE_HOST" in os.environ:
        return Chosen("this pod", _POD_NAMESPACE.read_text().strip(), in_cluster())
    looked = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    raise AccessError(
        f"no cluster is known, because there is no kubeconfig at {looked}. Name one with "
        "--kubeconfig or KUBECONFIG; `kubectl config get-contexts` shows what kubectl uses"
    )
