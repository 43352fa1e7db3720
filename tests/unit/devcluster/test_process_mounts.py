from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devcluster.process.mounts import Mount, normalized, rewrite

MOUNTS = [
    Mount("/data", Path("/host/v/data")),
    Mount("/data/cache", Path("/host/v/cache")),
    Mount("/tmp", Path("/host/v/tmp")),  # noqa: S108 - a mount path
    Mount("/etc/app.conf", Path("/host/v/conf/app.conf")),
    Mount("/dev/termination-log", Path("/tmp/pod/termination-log")),  # noqa: S108 - likewise
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data", "/host/v/data"),
        ("/data/", "/host/v/data/"),
        ("/data/a/b", "/host/v/data/a/b"),
        ("/data/cache", "/host/v/cache"),
        ("/data/cache/x", "/host/v/cache/x"),
        ("/data/cached", "/host/v/data/cached"),
        ("--dir=/data/a", "--dir=/host/v/data/a"),
        ("/bin:/data/bin:/data/cache", "/bin:/host/v/data/bin:/host/v/cache"),
        ("a,/data,/tmp/x", "a,/host/v/data,/host/v/tmp/x"),
        ("cp /data/a /tmp/b", "cp /host/v/data/a /host/v/tmp/b"),
        ("cp /data/a\t/tmp\n", "cp /host/v/data/a\t/host/v/tmp\n"),
        ("echo x >/data/out; ls /data;", "echo x >/host/v/data/out; ls /host/v/data;"),
        ("cat <'/data/x' \"/data\"", "cat <'/host/v/data/x' \"/host/v/data\""),
        ("$(cat /data/x)`ls /data`", "$(cat /host/v/data/x)`ls /host/v/data`"),
        ('{"path": "/data/x"}', '{"path": "/host/v/data/x"}'),
        ("cp --config=/etc/app.conf", "cp --config=/host/v/conf/app.conf"),
        ("echo done > /dev/termination-log", "echo done > /tmp/pod/termination-log"),
        ("file:///data/x", "file:///host/v/data/x"),
        ("host:/data", "host:/host/v/data"),
    ],
)
def test_mount_paths_are_mapped(text: str, expected: str) -> None:
    assert rewrite(text, MOUNTS) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "data",
        "/database",
        "/data.bak",
        "/data-2/x",
        "/data_x",
        "/my/data",
        "/my/data/cache",
        "s3://data/x",
        "http://host/data/x",
        "./data",
        "~/data",
        "x/data",
        "/DATA",
        "/etc/app.config",
        "$HOME/data",
    ],
)
def test_other_paths_are_kept(text: str) -> None:
    assert rewrite(text, MOUNTS) == text


def test_without_mounts_nothing_changes() -> None:
    assert rewrite("/data /tmp", []) == "/data /tmp"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/data", "/data"),
        ("/data/", "/data"),
        ("//data", "/data"),
        ("/a//b/./c/../d", "/a/b/d"),
        ("relative", "/relative"),
        ("/", "/"),
    ],
)
def test_mount_paths_have_one_spelling(path: str, expected: str) -> None:
    assert normalized(path) == expected


parts = st.text(alphabet="abz.-_09", min_size=1, max_size=3).filter(lambda p: p not in (".", ".."))
paths = st.lists(parts, min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))
mount_paths = st.lists(paths, max_size=4, unique=True)


def as_mounts(names: list[str]) -> list[Mount]:
    # A target is below another mount's path now and then: that must not be mapped once more.
    return [Mount(name, Path(f"/a/{index}")) for index, name in enumerate(names)]


@given(mount_paths, paths)
def test_one_path_is_mapped_by_the_longest_mount_above_it(names: list[str], path: str) -> None:
    mounts = as_mounts(names)
    above = [m for m in mounts if path == m.path or path.startswith(m.path + "/")]
    expected = path
    if above:
        mount = max(above, key=lambda m: len(m.path))
        expected = f"{mount.target}{path.removeprefix(mount.path)}"
    assert rewrite(path, mounts) == expected


@given(mount_paths, st.lists(paths, max_size=4), st.sampled_from([" ", ":", ",", "=", ";", "\n"]))
def test_every_path_of_a_list_is_mapped_on_its_own(
    names: list[str], listed: list[str], separator: str
) -> None:
    mounts = as_mounts(names)
    expected = separator.join(rewrite(path, mounts) for path in listed)
    assert rewrite(separator.join(listed), mounts) == expected


@given(mount_paths, st.text(alphabet="ab/=: .-'"))
def test_the_order_of_mounts_does_not_matter(names: list[str], text: str) -> None:
    mounts = as_mounts(names)
    assert rewrite(text, mounts) == rewrite(text, mounts[::-1])


@given(mount_paths, st.text(alphabet="ab=: .-'"))
def test_text_without_a_slash_is_kept(names: list[str], text: str) -> None:
    assert rewrite(text, as_mounts(names)) == text
