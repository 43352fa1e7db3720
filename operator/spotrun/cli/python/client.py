"""The client: jobs of a cluster, started, found and listed."""

import asyncio
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from spotrun.api.names import TRAINING_JOB
from spotrun.cli.cluster.session import Cluster
from spotrun.cli.cluster.troubles import NoSuchJob
from spotrun.cli.python.calling import blocking
from spotrun.cli.python.connection import Connection
from spotrun.cli.python.job import Job, read_all, read_one
from spotrun.cli.python.report import Report
from spotrun.cli.report.kept import kept_report
from spotrun.cli.submit.creation import create, objects_of, trainer_image
from spotrun.cli.submit.package import name_for, pack
from spotrun.cli.submit.secrets import require_no_secrets
from spotrun.cli.submit.wishes import Wishes, read_workers
from spotrun.observe.kube_objects import TRAINING_JOBS

if TYPE_CHECKING:
    from spotrun.api.trainingjob import TrainingJob

Capacity = Literal["Spot", "Mixed", "OnDemand"]


class Client:
    """Training jobs of a cluster, with the rights of a kubeconfig's user or of this pod.

        client = Client()
        job = client.run("train.py", workers="2..8", gpus=1, budget=20)
        job.wait()

    Each method blocks; its `.aio` is the same as a coroutine: `await client.get.aio("gpt")`.
    """

    def __init__(
        self,
        namespace: str | None = None,
        *,
        context: str | None = None,
        kubeconfig: str | None = None,
    ) -> None:
        self._connection = Connection(kubeconfig, context, namespace)

    @blocking
    async def run(
        self,
        script: str | PathLike[str],
        *,
        args: Sequence[object] = (),
        name: str | None = None,
        entry: str | None = None,
        image: str | None = None,
        workers: int | str = 1,
        gpus: int = 0,
        cpu: str | None = None,
        memory: str | None = None,
        capacity: Capacity | None = None,
        budget: float | str | None = None,
        deadline: str | None = None,
        checkpoint: str | None = None,
        env: Mapping[str, str] | None = None,
        allow_file: Sequence[str] = (),
    ) -> Job:
        """Start a job that runs a script, or a folder of up to a megabyte; no image is built.

        args         arguments of the script
        name         of the job; default: that of the script
        entry        the script, in a folder of several
        image        Python and PyTorch; default: the one that the installation names
        workers      a number, or the least and the most: "2..8"
        gpus         of a worker
        cpu, memory  that a worker requests, such as "4" and "8Gi"
        capacity     "Spot" (the default), "Mixed" or "OnDemand"
        budget       the most that it may cost in total, in USD
        deadline     the time in which it has to finish, such as "6h"
        checkpoint   a PersistentVolumeClaim, or an address such as "s3://bucket/folder"
        env          variables of the script
        allow_file   patterns of files to send although they look like keys
        """
        path = fspath(script)
        package = await asyncio.to_thread(pack, path, entry)
        require_no_secrets(package.files, allow_file)
        least, most = read_workers(str(workers))
        wishes = Wishes(
            least=least,
            most=most,
            gpus=gpus,
            cpu=cpu,
            memory=memory,
            capacity=capacity,
            budget_usd=str(budget) if budget is not None else None,
            deadline=deadline,
            checkpoint=checkpoint,
            environment=dict(env or {}),
            arguments=tuple(map(str, args)),
        )
        cluster = await self._connection.cluster()
        named = name or name_for(path, package)
        image = image or await trainer_image(cluster)
        # Shielded: a caller that stops waiting must not leave files without a job.
        await asyncio.shield(create(cluster, objects_of(named, image, package, wishes)))
        return await self._job(cluster, named)

    @blocking
    async def apply(self, job: "TrainingJob | Mapping[str, Any]") -> Job:
        """Create a job, or change one, by server-side apply; takes a manifest as a mapping, too.

        Raises ValueError that names each wrong field, before anything is sent.
        """
        from spotrun.api.manifest import load  # noqa: PLC0415 - pydantic takes long

        manifest = dict(job) if isinstance(job, Mapping) else job.manifest()
        if manifest.get("kind") != TRAINING_JOB:
            raise ValueError(f"kind is {manifest.get('kind')!r}; apply takes a {TRAINING_JOB}")
        load(manifest)
        metadata = manifest["metadata"]
        if not metadata.get("name"):
            raise ValueError("metadata.name is missing: apply needs the name of the job")
        cluster = await self._connection.cluster(metadata.get("namespace"))
        await cluster.client.apply(
            TRAINING_JOBS, metadata["name"], manifest, msgspec.Raw, namespace=cluster.namespace
        )
        return await self._job(cluster, metadata["name"])

    @blocking
    async def get(self, name: str, *, namespace: str | None = None) -> Job:
        """Return a job; raises NoSuchJobError with similar names."""
        return await self._job(await self._connection.cluster(namespace), name)

    @blocking
    async def report(self, name: str, *, namespace: str | None = None) -> Report:
        """Return the report on a job; on a deleted job, the one that `finished.report` kept."""
        cluster = await self._connection.cluster(namespace)
        try:
            job = await self._job(cluster, name)
        except NoSuchJob:
            if (kept := await kept_report(cluster, name)) is None:
                raise
            return Report(kept)
        return await job.report.aio()

    @blocking
    async def list(self, *, all_namespaces: bool = False) -> tuple[Job, ...]:
        """Return the jobs of the namespace, or of all."""
        cluster = await self._connection.cluster(is_everywhere=all_namespaces)
        return tuple(Job(self._connection, seen) for seen in await read_all(cluster))

    @blocking
    async def close(self) -> None:
        """Close the connection; the next call opens it again."""
        await self._connection.close()

    async def _job(self, cluster: Cluster, name: str) -> Job:
        return Job(self._connection, await read_one(cluster, name))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close.aio()
