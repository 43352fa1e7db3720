"""Prometheus and promtool are found where they are good enough, and built where they are not."""

from pathlib import Path

import pytest

from charts import prometheus
from tests.support.processes.fake_programs import fake_go, program


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty cache, a PATH of one folder, and a Go that takes no minutes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    (tmp_path / "bin").mkdir()
    # `go build -trimpath -ldflags F -tags T -o OUT PACKAGE`
    fake_go(tmp_path / "bin/go", 'shift 7; echo "$2" > "$1"')
    return tmp_path


def silent(_: str) -> None:
    pass


def test_those_of_the_pinned_major_are_used_as_they_are(machine: Path) -> None:
    major = prometheus.version().partition(".")[0]
    for name in ("promtool", "prometheus"):
        program(machine / "bin" / name, f"echo '{name}, version {major}.99.0 (branch: HEAD)'")

    assert prometheus.promtool(silent) == machine / "bin/promtool"
    assert prometheus.server(silent) == machine / "bin/prometheus"


@pytest.mark.parametrize("script", ["echo 'prometheus, version 2.53.0 (branch: HEAD)'", "exit 1"])
def test_another_one_is_not_used(machine: Path, script: str) -> None:
    program(machine / "bin/prometheus", script)

    assert prometheus.server(silent).parent.name.startswith("prometheus-")


def test_both_are_built_once_of_one_module(machine: Path) -> None:
    lines: list[str] = []
    for _ in range(2):
        tool, server = prometheus.promtool(lines.append), prometheus.server(lines.append)

    assert tool.read_text() == "github.com/prometheus/prometheus/cmd/promtool\n"
    assert server.read_text() == "github.com/prometheus/prometheus/cmd/prometheus\n"
    assert tool.parent == server.parent
    assert sum("compiling" in line for line in lines) == 2
