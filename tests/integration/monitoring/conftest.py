import sys
from pathlib import Path

import pytest

from charts import prometheus


@pytest.fixture(scope="session")
def promtool() -> Path:
    return prometheus.promtool(lambda line: print(line, file=sys.stderr, flush=True))
