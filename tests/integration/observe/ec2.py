"""moto's server, which speaks the protocol of EC2, and what boto3 needs to believe it."""

import importlib
import os
import re
import subprocess
import sys

import pytest

IMPORT_SECONDS = 120


class Ec2:
    """A process of its own, whose port it chooses itself."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        said = []
        for line in self._process.stderr:
            said.append(line)
            if running := re.search(r"Running on (http://127\.0\.0\.1:\d+)", line):
                self.url = running[1]
                self._let_import()
                return
        raise AssertionError("".join(said))

    def _let_import(self) -> None:
        """Ask once: the server imports EC2's part then, for longer than the operator waits."""
        client = importlib.import_module("boto3").client(
            "ec2",
            region_name="us-east-1",
            endpoint_url=self.url,
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 - of no account
            config=importlib.import_module("botocore.config").Config(read_timeout=IMPORT_SECONDS),
        )
        client.describe_spot_price_history(MaxResults=5)

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=20)
        assert self._process.stderr is not None
        self._process.stderr.close()


def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let boto3 find credentials for tests, and none of whoever runs them."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
