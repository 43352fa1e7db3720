"""docs/tutorial.md as it stands, typed into a shell: a cluster, a job, its page and its report."""

import asyncio
import os
import re
import shutil
import sys
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

from devcluster.addresses import free_ports

ROOT = Path(__file__).parents[3]
UNTYPED = "With Docker: kind"
PATIENCE_SECONDS = 400
A_VISIT = """\
coproc page { exec kubectl tjob ui --no-open; }
read -r address <&"${page[0]}"
python -c 'import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read())' "$address"
kill -INT "$page_PID"
wait "$page_PID"
"""
"""What a person does at `kubectl tjob ui`: open the address, then press Ctrl-C."""


def commands() -> str:
    """The commands of each section that can be run here, in their order."""
    text = (ROOT / "docs/tutorial.md").read_text()
    sections = re.split(r"^##+ ", text, flags=re.MULTILINE)
    blocks = [
        block
        for section in sections
        if not section.startswith(UNTYPED)
        for block in re.findall(r"^```bash\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    ]
    assert len(blocks) == 7
    return "".join(blocks).replace("kubectl tjob ui\n", A_VISIT)


async def test_the_tutorial_leads_to_a_finished_job_its_page_and_its_report(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "crds", tmp_path / "crds")  # kubectl follows no link
    (tmp_path / "trainer_image").symlink_to(ROOT / "trainer_image")
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    agents, metrics, liveness = map(str, free_ports("127.0.0.1", 3))
    ports = {
        "SPOTRUN_AGENTS_HOST": "127.0.0.1",
        "SPOTRUN_AGENTS_PORT": agents,
        "SPOTRUN_ADDRESS": f"127.0.0.1:{agents}",
        "SPOTRUN_METRICS_HOST": "127.0.0.1",
        "SPOTRUN_METRICS_PORT": metrics,
        "SPOTRUN_LIVENESS_PORT": liveness,
    }  # of other tests' operators beside it
    end = 'trap "kill \\$(jobs -p) || true; python -m devcluster down" EXIT\n'
    shell = await asyncio.create_subprocess_exec(
        *("bash", "-euxc", f"{end}{commands()}"),
        cwd=tmp_path,
        env={**os.environ, **ports, "OMP_NUM_THREADS": "1"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE,
        stderr=STDOUT,
    )
    said = (await asyncio.wait_for(shell.communicate(), PATIENCE_SECONDS))[0].decode()

    assert shell.returncode == 0, said
    assert "Succeeded" in said
    assert "http-equiv" in said  # the page lets its visitor in
    report = (tmp_path / "report.html").read_text()
    assert "<svg" in report
    assert "Succeeded" in report
