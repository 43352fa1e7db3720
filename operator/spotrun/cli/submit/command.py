"""`kubectl tjob run`: pack, estimate, ask, submit, follow."""

import asyncio
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

import msgspec

from spotrun.cli.cluster.exit_codes import DONE, REFUSED, WRONGLY_ASKED
from spotrun.cli.cluster.session import Cluster, ask, connected
from spotrun.cli.cluster.troubles import Refused, Unreadable, in_words
from spotrun.cli.jobs.reading import pools
from spotrun.cli.jobs.watch import watched
from spotrun.cli.submit.creation import Objects, create, objects_of, trainer_image
from spotrun.cli.submit.expectation import expectation
from spotrun.cli.submit.manifests import as_yaml
from spotrun.cli.submit.package import Package, name_for, pack
from spotrun.cli.submit.secrets import require_no_secrets
from spotrun.cli.submit.wishes import Wishes, read_wishes
from spotrun.cli.text.look import printable
from spotrun.cli.text.prompt import agrees
from spotrun.kube.errors import KubeError
from spotrun.kube.rest.access import AccessError

STAND_IN_IMAGE = "your-registry/spotrun-trainer:1"
"""The same as the chart's default of trainerImage, which must be replaced as well."""
_LOOK_SECONDS = 5.0
_GOODBYE_SECONDS = 35.0
"""torchrun gives its workers 30 s; if it is killed earlier, they stay, and keep their GPUs."""


@dataclass(frozen=True)
class Order:
    """The requested run."""

    chosen: Namespace
    name: str
    package: Package
    wishes: Wishes


def understand(chosen: Namespace) -> Order:
    """Read flags and files; raises ValueError that says what is wrong."""
    package = pack(chosen.script, chosen.entry)
    if not chosen.local:  # --local sends nothing
        require_no_secrets(package.files, chosen.allow_file)
    name = chosen.name or name_for(chosen.script, package)
    return Order(chosen, name, package, read_wishes(chosen))


def run(order: Order) -> int:
    """Run the script: here, in the cluster, or not at all."""
    chosen = order.chosen
    if chosen.local:
        return _here(order)
    if chosen.dry_run:
        print(_yaml(order, chosen.image or asyncio.run(_named_image(order))), end="")
        return DONE
    submitted: list[str] = []
    try:
        return ask(chosen, lambda cluster: _submit(cluster, order, submitted))
    except KeyboardInterrupt:
        if not submitted:
            raise
        where = f" -n {chosen.namespace}" if chosen.namespace else ""
        print(
            f"\nDetached: {order.name} continues. `kubectl tjob watch {order.name}{where}` follows "
            f"it again, `kubectl tjob stop {order.name}{where}` ends it"
        )
        return DONE


async def _named_image(order: Order) -> str:
    """Return the installation's image, or a stand-in: a dry run needs no cluster."""
    try:
        async with asyncio.timeout(_LOOK_SECONDS), connected(order.chosen) as cluster:
            return await trainer_image(cluster)
    except TimeoutError:
        why = f"the cluster has not answered within {_LOOK_SECONDS:g} s"
    except (Refused, Unreadable, AccessError, KubeError, OSError, msgspec.MsgspecError) as error:
        why = in_words(error)
    print(
        f"kubectl tjob run: the image was not looked up ({printable(why)}). The YAML has "
        f"{STAND_IN_IMAGE}: replace it with yours, or give --image",
        file=sys.stderr,
    )
    return STAND_IN_IMAGE


async def _submit(cluster: Cluster, order: Order, submitted: list[str]) -> int:
    """Ask for confirmation and submit; adds the job's name to `submitted` once it is created."""
    chosen = order.chosen
    image = chosen.image or await trainer_image(cluster)
    print(
        "\n".join(_summary(cluster, order, image, expectation(order.wishes, await pools(cluster))))
    )
    if chosen.work_hours:
        _estimate(order, image)
    if not chosen.yes and not agrees(f"Submit {order.name}?"):
        print("nothing was submitted", file=sys.stderr)
        return REFUSED
    creating = asyncio.ensure_future(create(cluster, _objects(order, image)))
    try:
        await asyncio.shield(creating)
    except asyncio.CancelledError:
        await creating  # leave no files without a job, and no job without its files
        submitted.append(order.name)
        raise
    submitted.append(order.name)
    print(f"{order.name}: submitted to {cluster.namespace}")
    if chosen.detach:
        print(f"`kubectl tjob watch {order.name}` follows it")
        return DONE
    return await watched(cluster, order.name)


def _summary(cluster: Cluster, order: Order, image: str, expected: list[str]) -> list[str]:
    package = order.package
    size = sum(map(len, package.files.values()))
    files = f"{len(package.files)} files" if len(package.files) > 1 else package.entry
    return [
        f"Job: {cluster.namespace}/{order.name} ({cluster.context})",
        f"Script: {package.entry} ({files}, {size:,} bytes), image {image}",
        *expected,
    ]


def _yaml(order: Order, image: str) -> str:
    objects = _objects(order, image)
    return as_yaml(objects.files, objects.job)


def _objects(order: Order, image: str) -> Objects:
    return objects_of(order.name, image, order.package, order.wishes)


def _estimate(order: Order, image: str) -> None:
    """Replay recorded markets, as `kubectl tjob estimate` does."""
    from spotrun.cli.replay import estimate_flags  # noqa: PLC0415 - a second of imports
    from spotrun.simulate.estimate import command  # noqa: PLC0415

    parser = ArgumentParser()
    estimate_flags.describe(parser)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "job.yaml"
        file.write_text(as_yaml(_objects(order, image).job))
        hours = f"{order.chosen.work_hours:g}"
        flags = ["-f", str(file), "--work-hours", hours, "--starts", "4"]
        command.run(command.understand(parser.parse_args(flags)))


def _here(order: Order) -> int:
    """Run the script under torchrun on this machine, from its own folder."""
    path = Path(order.chosen.script)
    script = path if path.is_file() else path / order.package.entry
    if find_spec("torch") is not None:
        torchrun = [sys.executable, "-m", "torch.distributed.run"]
    elif found := which("torchrun"):
        torchrun = [found]
    else:
        print(
            "kubectl tjob run: --local needs torchrun, and there is no PyTorch here: "
            "pip install torch",
            file=sys.stderr,
        )
        return WRONGLY_ASKED
    processes = f"--nproc-per-node={order.wishes.gpus or 1}"
    command = [*torchrun, "--standalone", processes, str(script), *order.wishes.arguments]
    print(" ".join(command), file=sys.stderr)
    return _finished(command)


def _finished(command: list[str]) -> int:
    """Run a program to its end. Ctrl-C reaches it too: it needs time to end its workers."""
    with subprocess.Popen(command) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GOODBYE_SECONDS)
            process.terminate()  # does nothing if it has ended
            process.wait()
            raise
