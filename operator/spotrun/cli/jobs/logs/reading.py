"""The logs of pods, read from their nodes through the API server."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from spotrun.cli.cluster.session import Cluster
from spotrun.cli.jobs.logs.lines import Progress
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
            return [f"({error.message})"]  # such as "waiting to start": the others have logs
        answer = await _read(cluster, pod, params)
    except NotFound:
        return ["(its pod is gone, and its log with it)"]
    except Retryable as error:
        return [f"({error.message})"]  # such as a lost node: the others have logs
    return answer.decode(errors="replace").splitlines()


async def follow(cluster: Cluster, pod: PodObject, tail: int | None) -> AsyncGenerator[str, None]:
    """Yield the lines of a worker as they come, each once, until it has ended."""
    params = {**_params(pod, tail), "follow": "true", "timestamps": "true"}
    path = PODS.path(pod.metadata.namespace, pod.metadata.name, "log")
    progress = Progress()
    while True:
        try:
            async with aclosing(_streamed(cluster, path, params)) as lines:
                async for text in lines:
                    if (new := _unseen(text, params, progress)) is not None:
                        yield new
        except Invalid as error:
            if "timestamps" in params and "timestamps" in error.message:
                del params["timestamps"]
                continue
            if "waiting to start" not in error.message:
                yield f"({error.message})"
                return
        except (Retryable, Silent):
            params = _resumed(params, progress)
        except KubeError as error:
            yield f"({error.message})"
            return
        else:
            return
        await asyncio.sleep(_PAUSE_SECONDS)


def _unseen(text: str, params: Mapping[str, str], progress: Progress) -> str | None:
    """Return a line without the kubelet's time, None if it was shown already."""
    if "timestamps" not in params:
        return text  # a time at its start is the script's own
    line = progress.read(text)
    return line.text if progress.is_new(line) else None


def _resumed(params: Mapping[str, str], progress: Progress) -> dict[str, str]:
    """Return the parameters after a lost connection: from the second of the last shown line."""
    if "timestamps" not in params:
        return {**params, "tailLines": "0"}  # later lines may be missed, and none is repeated
    since = progress.resume()
    if since is None:
        return dict(params)  # nothing was shown
    kept = {name: value for name, value in params.items() if name != "tailLines"}
    return {**kept, "sinceTime": since}


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
