"""`spotrun data prepare`: only what is new is worked on, and a kill loses little."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers

from spotrun_trainer.data import TokenFile, open_dataset
from spotrun_trainer.data.prepare import plan, processes
from spotrun_trainer.data.prepare.command_line import main
from spotrun_trainer.data.prepare.documents import Piece, documents
from spotrun_trainer.data.prepare.plan import Group, Input, Settings, groups_of

SETTINGS = Settings("bytes", "text", "uint16", 0, 1 << 20, is_packed=False)
END = 0


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.txt").write_text("first")
    (folder / "inner/b.md").write_text("second")
    lines = [json.dumps({"text": f"line {n}", "other": 1}) for n in range(3)]
    (folder / "c.jsonl").write_text("\n".join(lines) + "\n\n")
    pq.write_table(pa.table({"text": ["row 0", "row 1"]}), folder / "d.parquet")
    (folder / "notes.csv").write_text("no input")
    return folder


TEXTS = {"first", "second", "line 0", "line 1", "line 2", "row 0", "row 1"}


def run(corpus: Path, output: Path, *more: str) -> int:
    arguments = ["--tokenizer", "bytes", "--end-token", str(END), "--workers", "1", *more]
    return main(["data", "prepare", str(corpus), "--output", str(output), *arguments])


def texts(output: Path) -> set[str]:
    """Return the documents in the shards, by the manifest."""
    whole: Any = TokenFile(output, length=1)
    tokens = bytes(int(whole[number]) for number in range(len(whole)))
    return {one.decode() for one in tokens.split(bytes([END])) if one}


@pytest.mark.parametrize("more", [[], ["--zstd"], ["--dtype", "uint32"], ["--shard-size", "10B"]])
def test_texts_become_tokens_that_are_found_again(
    corpus: Path, tmp_path: Path, more: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOTRUN_DATA_CACHE", str(tmp_path / "cache"))
    assert run(corpus, tmp_path / "out", *more) == 0
    assert texts(tmp_path / "out") == TEXTS
    assert len(open_dataset(tmp_path / "out", length=4)) > 3


def test_only_what_is_new_or_has_changed_is_worked_on(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    run(corpus, out)
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("*.bin")}
    (corpus / "e.txt").write_text("new")
    os.utime(corpus / "a.txt")  # the same content at another time is no change
    run(corpus, out)
    assert "3 B of input were new or had changed" in capsys.readouterr().out
    after = {path.name: path.stat().st_mtime_ns for path in out.glob("*.bin")}
    assert after.items() > before.items()
    assert texts(out) == TEXTS | {"new"}

    (corpus / "e.txt").write_text("other")
    (corpus / "a.txt").unlink()
    run(corpus, out)
    assert texts(out) == TEXTS - {"first"} | {"other"}
    assert len(list(out.glob("*.bin"))) == 2


def test_the_result_is_the_same_with_any_number_of_processes(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "GROUP_BYTES", 1)
    run(corpus, tmp_path / "one")
    run(corpus, tmp_path / "two", "--workers", "2")
    manifests = [tmp_path / name / "spotrun-data.json" for name in ("one", "two")]
    assert manifests[0].read_text() == manifests[1].read_text()


def test_a_kill_loses_only_the_group_that_was_worked_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, out = tmp_path / "corpus", tmp_path / "out"
    corpus.mkdir()
    (corpus / "a.txt").write_text("quick")
    (tmp_path / "slowly.py").write_text(SLOWLY)
    process = subprocess.Popen(
        [sys.executable, "-c", "from slowly import main; main()", str(corpus), str(out)],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "SLOW": "1"},
    )
    (corpus / "b.txt").write_text("slow")
    deadline = time.monotonic() + 60
    while not (tmp_path / "is-slow").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (out / "spotrun-data.json").exists()

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plan, "GROUP_BYTES", 1)
    arguments = ["--tokenizer", "slowly:encode", "--end-token", "0", "--workers", "1"]
    assert main(["data", "prepare", str(corpus), "--output", str(out), *arguments]) == 0
    assert "4 B of input were new" in capsys.readouterr().out
    assert texts(out) == {"quick", "slow"}


SLOWLY = """
import os, sys, time
from pathlib import Path
from typing import Any

def encode(text):
    if text == "slow" and os.environ.get("SLOW"):
        (Path(__file__).parent / "is-slow").touch()
        time.sleep(60)
    return list(text.encode())

def main():
    from spotrun_trainer.data.prepare import plan
    from spotrun_trainer.data.prepare.command_line import main
    plan.GROUP_BYTES = 1
    while not (Path(sys.argv[1]) / "b.txt").exists():
        time.sleep(0.01)
    main(["data", "prepare", sys.argv[1], "--output", sys.argv[2], "--tokenizer", "slowly:encode",
          "--end-token", "0", "--workers", "1"])
"""


def test_a_tokenizer_of_hugging_face_is_used(corpus: Path, tmp_path: Path) -> None:
    words = {"first": 0, "[UNK]": 70_000}
    model = tokenizers.models.WordLevel(words, unk_token="[UNK]")  # noqa: S106 - no password
    path = tmp_path / "tokenizer.json"
    tokenizers.Tokenizer(model).save(str(path))

    assert run(corpus / "a.txt", tmp_path / "out", "--tokenizer", str(path)) == 0
    (shard,) = (tmp_path / "out").glob("*.bin")
    assert np.fromfile(shard, np.uint16).tolist() == [0, END]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--tokenizer", "no_such_module:encode"], "set PYTHONPATH to its folder"),
        (["--tokenizer", "none.json"], "there is no such file"),
        (["--column", "nothing"], "no text 'nothing' .*it has text, other.* choose the column"),
        (["--output", "s3://bucket/out"], "as `aws s3 sync`"),
        (["--output", "{corpus}"], "contains other files: choose an empty folder"),
    ],
)
def test_mistakes_are_told_in_a_line(
    corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    says: str,
) -> None:
    given = [one.format(corpus=corpus) for one in more]
    assert run(corpus, tmp_path / "out", *given) == 2
    said = capsys.readouterr().err.strip()
    assert said.startswith("spotrun data prepare: ")
    assert "\n" not in said
    with pytest.raises(ValueError, match=says):
        raise ValueError(said)


def test_other_settings_are_refused_and_a_token_that_does_not_fit(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(corpus, tmp_path / "out")
    assert run(corpus, tmp_path / "out", "--zstd") == 2
    assert "was prepared with is_packed False" in capsys.readouterr().err
    assert run(corpus, tmp_path / "other", "--end-token", "70000") == 2
    assert "does not fit into uint16" in capsys.readouterr().err


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_a_large_file_of_lines_is_cut_and_no_line_is_lost(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'"{n}"\n' for n in range(12)))
    size = path.stat().st_size
    groups = groups_of([Input("a.jsonl", str(path), size, "hash")], SETTINGS, (), cut)

    assert len(groups) == -(-size // cut)
    found = [text for group in groups for piece in group.pieces for text in documents(piece, "")]
    assert found == [str(n) for n in range(12)]


def test_files_that_were_together_stay_together() -> None:
    def keys(names: str, known: list[list[str]]) -> list[str]:
        inputs = [Input(f"{name}.txt", f"/{name}", 10, name) for name in names]
        return [group.key for group in groups_of(inputs, SETTINGS, known, 20)]

    first = keys("bdf", [])
    known = [["b.txt", "d.txt"], ["f.txt"]]
    assert keys("bdf", known) == first
    assert keys("abcdf", known)[:2] == first
    assert keys("bf", known)[1] == first[1]
    assert isinstance(Group((Piece("a", "/a", 0, 3),), "k").num_bytes, int)


def test_an_index_is_written_beside_shards_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPOTRUN_DATA_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "data"
    folder.mkdir()
    pq.write_table(pa.table({"n": range(5)}), folder / "a.parquet")
    for _ in range(2):
        assert main(["data", "index", str(folder)]) == 0
    manifest = json.loads((folder / "spotrun-data.json").read_text())
    assert manifest["shards"][0]["facts"] == {"samples": 5}
    assert len(open_dataset(folder)) == 5

    pq.write_table(pa.table({"n": range(7)}), folder / "a.parquet")
    with pytest.raises(ValueError, match=r"a.parquet has .* bytes, but .* in its manifest"):
        open_dataset(folder)
    assert "1 shards" in capsys.readouterr().out


def test_it_goes_on_where_it_was_killed_before_its_first_journal(
    corpus: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/._prepared.json.part").write_text("{")
    assert run(corpus, tmp_path / "out") == 0
    assert texts(tmp_path / "out") == TEXTS


def test_its_own_folder_may_be_below_its_inputs(corpus: Path) -> None:
    for _ in range(2):
        assert run(corpus, corpus / "out") == 0
    assert texts(corpus / "out") == TEXTS


def test_an_input_that_changes_meanwhile_is_not_taken_for_what_it_was(
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = (corpus / "a.txt").stat()

    def changed(*arguments: Any) -> Any:
        (corpus / "a.txt").write_text("other")
        return processes.each_done(*arguments)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr("spotrun_trainer.data.prepare.prepare.each_done", changed)
        assert run(corpus, tmp_path / "out") == 2
    assert "changed during the preparation" in capsys.readouterr().err

    (corpus / "a.txt").write_text("first")  # as it was, also to the journal
    os.utime(corpus / "a.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert run(corpus, tmp_path / "out") == 0
    assert texts(tmp_path / "out") == TEXTS


def test_a_large_file_of_lines_is_cut_beside_small_ones_too() -> None:
    inputs = [Input("a.txt", "/a.txt", 5, "1"), Input("b.jsonl", "/b.jsonl", 250, "2")]
    groups = groups_of(inputs, SETTINGS, group_bytes=100)
    assert sorted(one.num_bytes for one in groups) == [5, 50, 100, 100]
