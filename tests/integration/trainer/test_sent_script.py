"""A folder that `kubectl tjob run` sends is trained by real processes, two of them."""

from pathlib import Path

from tests.integration.trainer.helpers import Place
from tests.support.processes.plugin import typed

SCRIPT = """\
import torch.distributed as dist
from parts.words import HELLO
dist.init_process_group("gloo")
print(HELLO, dist.get_rank(), "of", dist.get_world_size(), flush=True)
dist.barrier()  # both have connected: whoever ends first takes the other's connections with it
dist.destroy_process_group()
"""


async def test_a_folder_is_sent_and_trained_without_an_image(place: Place, tmp_path: Path) -> None:
    folder = tmp_path / "sent"
    (folder / "parts").mkdir(parents=True)
    (folder / "train.py").write_text(SCRIPT)
    (folder / "parts/words.py").write_text("HELLO = 'hello from'\n")
    here = ("-n", place.namespace)
    way = ("--name", "job", "--image", "trainer", "--workers", "2", "--yes")
    async with place.operator():
        followed = await typed(place.cluster, "run", str(folder), *way, *here)
        heard = await typed(place.cluster, "logs", "job", "--all", *here)
    assert followed.code == 0, followed.out
    assert "hello from 0 of 2\n" in heard.out
    assert "hello from 1 of 2\n" in heard.out
