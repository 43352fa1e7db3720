"""The logs of pods, read from their nodes through the API server."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from spotrun.cli.cluster.session import Cluster
from spotrun.kube.errors import Invalid, KubeError, NotFound, Retryable, Silent
from spotrun.observe.kube_objects import PODS, PodObject

_DAY_SECONDS = 86_400.0
"""A script may be silent for hours."""
_PAUSE_SECONDS = 1.0
TRAINER = "trainer"


def container_of(pod: PodObject) -> str:
    """Return the name of the container that trains."""
    if pod.metadata.annotations.trainer:
        return pod.metadata.annotations.trainer
    names = [one.name for one in pod.spec.containers]
    return TRAINER if TRAINER in names or not names else names[0]


async def log_of(cluster: Cluster, pod: PodObject, tail: int | None) -> list[str]:
    """Return the last lines of a worker, with their times where its kubelet knows them."""
    params = _params(pod, tail)
    try:
        answer = await _read(cluster, pod, {**params, "timestamps": "true"})
    except Invalid as error:
        if "timestamps" not in error.message:
            return [f"({error.message})"]  # it is waiting to start, say: the others have logs
        answer = await _read(cluster, pod, params)
    except NotFound:
        return ["(its pod is gone, and its log with it)"]
    except Retryable as error:
        return [f"({error.message})"]  # its node has gone, say: the others have logs
    return answer.decode(errors="replace").splitlines()


async def follow(cluster: Cluster, pod: PodObject, tail: int | None) -> AsyncGenerator[str, None]:
    """Yield the lines of a worker as they come, until it has ended."""
    params = {**_params(pod, tail), "follow": "true"}
    path = PODS.path(pod.metadata.namespace, pod.metadata.name, "log")
    while True:
        try:
            async with aclosing(_streamed(cluster, path, params)) as lines:
                async for line in lines:
                    yield line
        except Invalid as error:
            if "waiting to start" not in error.message:
                yield f"({error.message})"
                return
        except (Retryable, Silent):
            params["tailLines"] = "0"  # what came since is not repeated, and may be missed
        except KubeError as error:
            yield f"({error.message})"
            return
        else:
            return
        await asyncio.sleep(_PAUSE_SECONDS)


async def _streamed(
    cluster: Cluster, path: str, params: Mapping[str, str]
) -> AsyncGenerator[str, None]:
    stream = cluster.transport.stream(path, params=params, silence_seconds=_DAY_SECONDS)
    async with aclosing(stream) as batches:
        async for lines in batches:
            for line in lines:
                yield line.decode(errors="replace")


def _params(pod: PodObject, tail: int | None) -> dict[str, str]:
    tailed = {"tailLines": str(tail)} if tail is not None else {}
    return {"container": container_of(pod), **tailed}


async def _read(cluster: Cluster, pod: PodObject, params: Mapping[str, str]) -> bytes:
    path = PODS.path(pod.metadata.namespace, pod.metadata.name, "log")
    return await cluster.transport.request("GET", path, params=params)
