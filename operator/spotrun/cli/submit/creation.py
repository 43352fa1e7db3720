"""The objects of a run, created in a cluster: all of them, or none."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from spotrun.cli.cluster.installation import installation
from spotrun.cli.cluster.session import Cluster
from spotrun.cli.cluster.troubles import Refused
from spotrun.cli.submit.manifests import Manifest, config_map, owned_by, training_job
from spotrun.cli.submit.package import Package
from spotrun.cli.submit.wishes import Wishes
from spotrun.kube.errors import AlreadyExists, Invalid, NotFound
from spotrun.observe.kube_objects import CONFIG_MAPS, TRAINING_JOBS

_NO_IMAGE = (
    "no image is known: this installation names none for training (chart value trainerImage), or "
    "you may not read it. Give one with Python and PyTorch by --image"
)


@dataclass(frozen=True)
class Objects:
    """The ConfigMap with the files, and the TrainingJob that runs them."""

    files: Manifest
    job: Manifest


def objects_of(name: str, image: str, package: Package, wishes: Wishes) -> Objects:
    """Return the objects of a run."""
    return Objects(config_map(name, package), training_job(name, image, package, wishes))


async def trainer_image(cluster: Cluster) -> str:
    """Return the image that the installation names; raises Refused if it names none."""
    known = await installation(cluster)
    if known is None or not known.trainer_image:
        raise Refused(_NO_IMAGE)
    return known.trainer_image


async def create(cluster: Cluster, objects: Objects) -> None:
    """Create the files, then the job, then make the job the owner of the files."""
    files, job = objects.files, objects.job
    await _create_job(cluster, job, dry_run=True)  # one that is refused leaves no files behind
    with suppress(AlreadyExists):  # the same content, by its name
        await cluster.client.create(CONFIG_MAPS, files, dict[str, Any], namespace=cluster.namespace)
    made = await _create_job(cluster, job)
    owner = {"ownerReferences": [owned_by(made)]}
    name = files["metadata"]["name"]
    try:
        await cluster.client.patch(
            CONFIG_MAPS, name, {"metadata": owner}, dict[str, Any], namespace=cluster.namespace
        )
    except NotFound:  # it belonged to an earlier job of this name, and was just deleted with it
        files["metadata"] |= owner
        await cluster.client.create(CONFIG_MAPS, files, dict[str, Any], namespace=cluster.namespace)


async def _create_job(
    cluster: Cluster, job: dict[str, Any], *, dry_run: bool = False
) -> dict[str, Any]:
    name = job["metadata"]["name"]
    try:
        return await cluster.client.create(
            TRAINING_JOBS, job, dict[str, Any], namespace=cluster.namespace, dry_run=dry_run
        )
    except AlreadyExists:
        raise Refused(
            f"there is a TrainingJob {name} in {cluster.namespace} already: choose another "
            f"--name, or end that one with `kubectl tjob stop {name}`"
        ) from None
    except Invalid as error:
        raise Refused(f"the cluster refuses this job: {error}") from None
