import os
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import reaper


@pytest.fixture
def marker() -> Iterator[str]:
    name = uuid.uuid4().hex
    yield name
    reaper.kill_marked(name)


def start(marker: str, script: str, container: str = "c") -> subprocess.Popen[str]:
    """Run a Python script that prints one line once everything it starts is there."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, reaper.MARKER: marker, reaper.CONTAINER: container},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        process.communicate(timeout=10)


ORPHAN_IN_ANOTHER_SESSION = """
    import os, signal, subprocess, sys
    orphan = '''
    import os, sys, time
    os.setsid()
    if os.fork():
        os._exit(0)
    print(os.getpid(), flush=True)
    time.sleep(1000)
    '''
    import textwrap
    subprocess.Popen([sys.executable, "-c", textwrap.dedent(orphan)])
    signal.pause()
"""


def exists(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_an_orphan_in_another_session_is_found_and_killed(marker: str) -> None:
    process = start(marker, ORPHAN_IN_ANOTHER_SESSION)
    orphan = int(first_line(process))
    assert reaper.marked(marker) >= {process.pid, orphan}
    reaper.kill_marked(marker)
    assert reaper.marked(marker) == set()
    assert not exists(orphan)
    end(process)


@pytest.mark.parametrize(
    "bare",
    [
        # Known by its parent only.
        'subprocess.Popen(["/bin/sleep", "1000"], env={}, start_new_session=True).pid',
        # Known by its session only: an orphan.
        'subprocess.check_output("env -i sleep 1000 >/dev/null & echo $!", shell=True, text=True)',
    ],
)
def test_children_without_an_environment_are_found(marker: str, bare: str) -> None:
    script = f"import signal, subprocess; print({bare}, flush=True); signal.pause()"
    process = start(marker, script)
    pid = int(first_line(process))
    assert reaper.marked(marker) == {process.pid, pid}
    reaper.kill_marked(marker)
    assert not exists(pid)
    end(process)


def test_only_the_container_asked_for_is_killed(marker: str) -> None:
    script = "print('up', flush=True); import signal; signal.pause()"
    one, other = start(marker, script, "one"), start(marker, script, "other")
    assert [first_line(one), first_line(other)] == ["up", "up"]
    reaper.kill_marked(marker, "one")
    assert reaper.marked(marker) == {other.pid}
    reaper.kill_marked(marker)
    end(one, other)


def test_a_tree_that_forks_all_the_time_is_killed(marker: str) -> None:
    script = """
        import os, signal, time
        print("up", flush=True)
        for _ in range(500):
            if os.fork() == 0:
                os.setsid()
                signal.pause()
        signal.pause()
    """
    process = start(marker, script)
    assert first_line(process) == "up"
    reaper.kill_marked(marker)
    end(process)  # at the end of its output, which all of them hold


def test_a_process_that_moves_on_by_forking_is_killed(marker: str) -> None:
    script = """
        import os, signal, time
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        print("up", flush=True)
        for _ in range(1000):  # so that it ends by itself should the reaper fail
            if os.fork():
                os._exit(0)
            os.setsid()
            time.sleep(0.03)
    """
    process = start(marker, script)
    assert first_line(process) == "up"
    reaper.kill_marked(marker)
    end(process)


def test_what_is_born_during_a_scan_is_found(marker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    process = start(marker, "print('up', flush=True); import signal; signal.pause()")
    first_line(process)
    listed, unborn = reaper._pids, [{process.pid}]
    monkeypatch.setattr(reaper, "_pids", lambda: listed() - (unborn.pop() if unborn else set()))
    assert reaper.marked(marker) == {process.pid}
    reaper.kill_marked(marker)
    end(process)


def test_all_are_stopped_at_sight_and_before_any_is_killed(
    marker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start(marker, "import os, signal; os.fork(); os.write(1, b'up\\n'); signal.pause()")
    assert [first_line(process), first_line(process)] == ["up", "up"]
    sent: list[str] = []
    listed, kill = reaper._pids, os.kill

    def look() -> set[int]:
        sent.append("look")
        return listed()

    def record(pid: int, number: signal.Signals) -> None:
        sent.append(number.name)
        kill(pid, number)

    monkeypatch.setattr(reaper, "_pids", look)
    monkeypatch.setattr(os, "kill", record)
    reaper.strike(marker)
    assert sent[:3] == ["look", "SIGSTOP", "SIGSTOP"]
    assert sent[-2:] == ["SIGKILL", "SIGKILL"]
    assert sent.count("SIGKILL") == 2
    end(process)


def test_nothing_is_found_for_an_unknown_marker() -> None:
    assert reaper.marked(uuid.uuid4().hex) == set()


def test_the_caller_is_spared(marker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script = f"""
        import sys
        sys.path.insert(0, {str(Path(reaper.__file__).parent.parent)!r})
        from devcluster import reaper
        reaper.kill_marked({marker!r})
        print("alive", flush=True)
    """
    process = start(marker, script)
    assert first_line(process) == "alive"
    end(process)


def test_the_limit_names_what_survives(marker: str) -> None:
    process = start(marker, "print('up', flush=True); import signal; signal.pause()")
    first_line(process)
    with pytest.raises(TimeoutError, match=rf"\[{process.pid}\].*survive"):
        reaper.kill_marked(marker, limit_seconds=-1)
    end(process)


def test_write_protected_trees_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "pod"
    (folder / "inner" / "deep").mkdir(parents=True)
    (folder / "inner" / "deep" / "file").write_text("x")
    for protected in (folder / "inner" / "deep", folder / "inner", folder):
        protected.chmod(0o500)
    reaper.remove_tree(folder)
    assert not folder.exists()


def test_what_links_point_to_stays(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (tmp_path / "pod").mkdir()
    (tmp_path / "pod" / "link").symlink_to(kept)
    reaper.remove_tree(tmp_path / "pod")
    assert kept.is_dir()


def test_removing_nothing_is_fine(tmp_path: Path) -> None:
    reaper.remove_tree(tmp_path / "never")


def test_the_watchdog_cleans_up_when_its_owner_is_killed(marker: str, tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    victim = start(marker, "print('up', flush=True); import signal; signal.pause()")
    first_line(victim)
    owner_script = f"""
        import signal, subprocess, sys
        watchdog = subprocess.Popen(
            [sys.executable, {reaper.__file__!r}, {marker!r}, {str(folder)!r}],
            stdin=subprocess.PIPE, start_new_session=True,
        )
        print("guarded", flush=True)
        signal.pause()
    """
    owner = start("another", owner_script)
    assert first_line(owner) == "guarded"
    owner.kill()
    # Both of these end by the watchdog only; it shares the owner's output, closed when it ends.
    end(victim, owner)
    assert reaper.marked(marker) == set()
    assert not folder.exists()


def test_the_watchdog_ignores_the_signals_of_a_terminal(marker: str, tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    watchdog = subprocess.Popen(
        [sys.executable, "-X", "importtime", reaper.__file__, marker, str(folder)],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert watchdog.stderr is not None
    # `shutil` is the last import of note; the handlers are set right after.
    while b"shutil" not in watchdog.stderr.readline():
        pass
    status = Path(f"/proc/{watchdog.pid}/status")
    while _ignored(status.read_text()) & 0x4003 != 0x4003:
        os.sched_yield()
    for number in (1, 2, 15):
        watchdog.send_signal(number)
    assert folder.exists()
    watchdog.communicate(timeout=10)
    assert watchdog.returncode == 0
    assert not folder.exists()


def _ignored(status: str) -> int:
    return next(int(line.split()[1], 16) for line in status.splitlines() if "SigIgn" in line)


def test_a_tree_that_cannot_be_removed_is_told(tmp_path: Path) -> None:
    stubborn = tmp_path / "file"
    stubborn.write_text("no directory")
    ran = subprocess.run(
        [sys.executable, reaper.__file__, uuid.uuid4().hex, str(stubborn)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert f"cannot remove {stubborn}" in ran.stderr


def test_little_is_imported() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "import sys, devcluster.reaper; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {"asyncio", "subprocess", "aiohttp", "dataclasses"} & set(ran.stdout.split())
