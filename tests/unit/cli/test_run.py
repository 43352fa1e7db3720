"""`kubectl tjob run`: what is packed, what is written, what is expected."""

import asyncio
import builtins
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import pytest
import yaml

from spotrun.api.manifest import load
from spotrun.api.trainingjob import TrainingJob
from spotrun.cli.kubectl import main
from spotrun.cli.submit import command
from spotrun.cli.submit import package as package_module
from spotrun.cli.submit.expectation import expectation
from spotrun.cli.submit.manifests import as_yaml
from spotrun.cli.submit.package import MOST_BYTES, name_for, pack
from spotrun.cli.submit.wishes import Wishes, read_workers
from spotrun.cli.text.prompt import agrees
from tests.support.screens.shown_jobs import shown_pools

ROOT = Path(__file__).parents[3]
SCRIPT = "import torch\nprint(torch.ones(1))\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "My Train.py"
    file.write_text(SCRIPT)
    return file


def a_kubeconfig(server: str) -> str:
    return json.dumps(
        {
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


def written(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert main(["run", *words, "--dry-run", "--image", "example/train:1"]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def test_the_yaml_is_what_a_person_would_have_written(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--workers", "2..8", "--gpus", "1", "--mixed", "--budget", "20", "--deadline", "6h")
    assert (
        main(
            [
                *("run", str(script), *words, "--dry-run", "--image", "example/train:1"),
                *("--", "--epochs", "3"),
            ]
        )
        == 0
    )
    assert (
        capsys.readouterr().out
        == """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: my-train-f00ef0f00f
  labels:
    spotrun.dev/run: my-train
immutable: true
data:
  My_Train.py: |
    import torch
    print(torch.ones(1))
---
apiVersion: spotrun.dev/v1alpha1
kind: TrainingJob
metadata:
  name: my-train
spec:
  workers:
    min: 2
    max: 8
    template:
      spec:
        containers:
        - name: trainer
          image: example/train:1
          args:
          - My Train.py
          - --epochs
          - '3'
          workingDir: /code
          volumeMounts:
          - name: code
            mountPath: /code
            readOnly: true
          resources:
            limits:
              nvidia.com/gpu: 1
        volumes:
        - name: code
          configMap:
            name: my-train-f00ef0f00f
            items:
            - key: My_Train.py
              path: My Train.py
  placement:
    capacity: Mixed
  deadline:
    finishWithin: 6h
  budget:
    maxCostUsd: '20'
    onExceeded: Fail
""".replace("f00ef0f00f", pack(str(script)).digest)
    )


@pytest.mark.parametrize("server", [None, "https://127.0.0.1:1"], ids=["no kubeconfig", "dead"])
def test_a_dry_run_needs_no_cluster_and_says_what_it_did_not_look_up(
    server: str | None, script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config"
    if server is not None:
        file.write_text(a_kubeconfig(server))
    assert main(["run", str(script), "--dry-run", "--kubeconfig", str(file)]) == 0
    said = capsys.readouterr()
    _, job = yaml.safe_load_all(said.out)
    [container] = job["spec"]["workers"]["template"]["spec"]["containers"]
    values = yaml.safe_load((ROOT / "charts/spotrun/values.yaml").read_text())
    assert container["image"] == values["trainerImage"]
    why = "no kubeconfig" if server is None else "does not answer"
    assert why in said.err
    assert "or give --image" in said.err


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--budget", "20", "--checkpoint", "claim"),
        ("--checkpoint", "s3://bucket/gpt", "--cpu", "4", "--memory", "8Gi", "--env", "A=b=c"),
        ("--spot", "--workers", "3"),
        ("--on-demand", "--deadline", "90m"),
    ],
)
def test_what_is_written_is_a_job_that_the_api_takes(
    script: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    _, job = written(capsys, str(script), *words)
    assert isinstance(load(job), TrainingJob)


def test_a_folder_keeps_its_paths_and_leaves_out_what_nobody_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "src/train.py": SCRIPT,
        "src/data/words.py": "A = 1\n",
        "src/data/blob": "\0",
        "src/.git/config": "x",
        "src/__pycache__/a.pyc": "x",
        "src/a.pyc": "x",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "src/link").symlink_to("/")
    code, job = written(capsys, str(tmp_path / "src"))
    assert sorted(code["data"]) == ["data--words.py", "train.py"]
    assert list(code["binaryData"]) == ["data--blob"]
    [volume] = job["spec"]["workers"]["template"]["spec"]["volumes"]
    assert [one["path"] for one in volume["configMap"]["items"]] == [
        *("data/blob", "data/words.py", "train.py"),
    ]
    assert job["metadata"]["name"] == "src"


@pytest.mark.parametrize(
    "text", ["a\r\n", "\n\n x\n", "a\x85b\nc", "a\u2028b\n", "\x1b[31m\n", "\tx\n"]
)
def test_a_script_comes_back_from_the_yaml_as_it_was(text: str) -> None:
    assert yaml.safe_load(as_yaml({"data": text})) == {"data": text}


def test_the_same_content_has_the_same_name_and_other_content_another(script: Path) -> None:
    before = pack(str(script)).digest
    assert pack(str(script)).digest == before
    script.write_text(SCRIPT + "\n")
    assert pack(str(script)).digest != before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere.py",), "there is no file or folder nowhere.py"),
        (("FOLDER", "--entry", "none.py"), "has no none.py: name the script with --entry"),
        (("SCRIPT", "--entry", "a.py"), "--entry chooses a file of a folder"),
        (("SCRIPT", "--workers", "8..2"), "like 2..8"),
        (("SCRIPT", "--env", "A"), "write it like NAME=VALUE"),
        (("BIG",), "bytes, and 1,000,000 can be sent (largest: big.py"),
    ],
)
def test_what_cannot_be_sent_is_said_before_anything_is_asked(
    script: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    said: str,
) -> None:
    big = script.with_name("big.py")
    big.write_bytes(b"#" * MOST_BYTES)
    places = {"SCRIPT": script, "BIG": big, "FOLDER": script.parent}
    named = [str(places.get(word, word)) for word in words]
    with pytest.raises(SystemExit) as ended:
        main(["run", *named])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_files_that_cannot_be_read_are_said(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", refused)
    with pytest.raises(SystemExit):
        main(["run", str(script)])
    assert f"{script} cannot be read: Permission denied" in capsys.readouterr().err


def test_no_file_takes_the_key_of_another(tmp_path: Path) -> None:
    for name in ("1-a_b", "2-a_b", "a b", "a_b", "train.py"):
        (tmp_path / name).write_text(SCRIPT)
    package = pack(str(tmp_path))
    assert sorted(package.keys.values()) == sorted(package.files)


def test_a_folder_of_too_many_files_is_not_walked_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked = (tmp_path / str(number) for number in range(10_000))
    monkeypatch.setattr(package_module, "_files", lambda _: walked)
    with pytest.raises(ValueError, match="more than 500 files"):
        pack(str(tmp_path))
    assert next(walked, None) is not None


def test_ctrl_c_before_it_is_submitted_does_not_say_that_it_goes_on(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object, __: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "ask", interrupted)
    assert main(["run", str(script), "--yes"]) == 130
    said = capsys.readouterr()
    assert ("Detached" in said.out, "interrupted" in said.err) == (False, True)


def test_ctrl_c_ends_a_question_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(_: str) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return "y"

    async def asked() -> None:
        agrees("Submit it?")
        answered.append(True)

    answered: list[bool] = []
    monkeypatch.setattr(builtins, "input", pressed)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(asked())
    assert answered == []


def test_workers_are_a_number_or_two() -> None:
    assert (read_workers("4"), read_workers("2..8")) == ((4, 4), (2, 8))


@pytest.mark.parametrize(
    ("name", "expected"), [("tiny_lm.py", "tiny-lm"), ("main.py", "proj"), ("Über.py", "ber")]
)
def test_a_job_is_named_after_its_script(tmp_path: Path, name: str, expected: str) -> None:
    folder = tmp_path / "proj"
    folder.mkdir()
    file = folder / name
    file.write_text(SCRIPT)
    assert name_for(str(file), pack(str(file))) == expected


def test_the_cost_to_expect_is_that_of_the_pools_that_can_hold_a_worker() -> None:
    wishes = Wishes(least=2, most=8, gpus=1, budget_usd="20")
    assert expectation(wishes, shown_pools()) == [
        "Cost: $1.92/h a worker in spot-a10g; 2 to 8 workers: $3.84/h to $15.36/h",
        "Budget: $20.00 lasts for 1h18m to 5h12m at these prices",
    ]
    for impossible in (Wishes(gpus=8), Wishes(capacity="OnDemand")):
        assert expectation(impossible, shown_pools())[0].startswith("Cost: not known")


def test_a_script_runs_here_under_torchrun(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "hello.py"
    script.write_text("import sys\nprint('hello', *sys.argv[1:])\nsys.exit(3)\n")
    assert main(["run", str(script), "--local", "--", "--epochs", "3"]) != 0
    assert "hello --epochs 3" in capfd.readouterr().out


def test_ctrl_c_here_leaves_torchrun_the_time_to_end_its_workers(tmp_path: Path) -> None:
    goodbye = (
        "import sys, time, pathlib\n"
        "try:\n    print('up', flush=True); time.sleep(60)\n"
        "except KeyboardInterrupt:\n    time.sleep(1); pathlib.Path('clean').touch()\n"
    )
    program = (  # what is started in the background of a shell would ignore Ctrl-C
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from spotrun.cli.submit.command import _finished; _finished(sys.argv[1:])"
    )
    words = [sys.executable, "-c", program, sys.executable, "-c", goodbye]
    with subprocess.Popen(
        words, cwd=tmp_path, stdout=PIPE, stderr=DEVNULL, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        os.killpg(process.pid, signal.SIGINT)
        process.wait(30)
    assert (tmp_path / "clean").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("id_rsa", "x"),
        ("certs/server.pem", "x"),
        ("prod.env", "TOKEN=x"),
        ("Kubeconfig.yaml", "kind: Config"),
        ("deploy", "-----BEGIN OPENSSH PRIVATE KEY-----\nx"),
        ("gcp.json", '{"private_key": "-----BEGIN PRIVATE KEY-----\\nx"}'),
        ("conf.yaml", "users:\n- user:\n    client-key-data: x"),
    ],
)
def test_a_key_is_sent_only_on_purpose(
    name: str, content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    key = tmp_path / name
    key.parent.mkdir(exist_ok=True)
    key.write_text(content)
    with pytest.raises(SystemExit) as exit_code:
        written(capsys, str(tmp_path))
    assert exit_code.value.code == 2
    assert f"{name} looks like a key" in capsys.readouterr().err
    files, _ = written(capsys, str(tmp_path), "--name", "a", "--allow-file", name)
    assert content in files["data"].values()


def test_what_only_speaks_of_keys_is_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("train.py", "keys.py", "environment.yaml", "tokenizer.json", "env.py"):
        (tmp_path / name).write_text("a private key\n")
    files, _ = written(capsys, str(tmp_path), "--name", "a")
    assert len(files["data"]) == 5
