"""`python -m charts`: write the files generated from the chart; --check: only report stale ones."""

import argparse
import sys
from pathlib import Path

from charts import dashboards, helm, manifests, prometheus, reference
from devcluster.golang import BuildError

ROOT = Path(__file__).parents[1]


def main(arguments: list[str] | None = None) -> int:
    """Write manifests/, the dashboards, and the references of values and flags."""
    parser = argparse.ArgumentParser(prog="python -m charts", description=main.__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 on a difference"
    )
    parser.add_argument(
        "--programs", action="store_true", help="only find or build Helm, promtool and Prometheus"
    )
    chosen = parser.parse_args(arguments)
    try:
        program = helm.ensure(_say)
        if chosen.programs:
            prometheus.promtool(_say)
            prometheus.server(_say)
            return 0
        texts = {**dashboards.rendered(), **manifests.rendered(program), **reference.rendered(ROOT)}
    except (BuildError, helm.HelmError) as error:
        print(f"python -m charts: {error}", file=sys.stderr)
        return 1
    stale = [name for name, text in texts.items() if (ROOT / name).read_text() != text]
    for name in stale:
        if chosen.check:
            print(f"{name} does not match the chart: run `python -m charts`", file=sys.stderr)
        else:
            (ROOT / name).write_text(texts[name])
    return 1 if chosen.check and stale else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
