"""The preparation: it checks inputs, and processes work on the groups that are not done."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, cast

from spotrun_trainer.data.cache.entries import hash_of
from spotrun_trainer.data.cache.locks import held_if_free
from spotrun_trainer.data.places import manifest
from spotrun_trainer.data.places.manifest import Manifest
from spotrun_trainer.data.prepare import journal as journals
from spotrun_trainer.data.prepare.documents import SUFFIXES
from spotrun_trainer.data.prepare.journal import Journal, Seen
from spotrun_trainer.data.prepare.plan import Group, Input, Settings, groups_of
from spotrun_trainer.data.prepare.processes import each_done
from spotrun_trainer.data.prepare.work import Made
from spotrun_trainer.process.commands.progress import Progress

LOCK = ".lock"


class Preparation:
    """Shards in a folder, made from inputs; finished work is not done again."""

    def __init__(self, output: Path, settings: Settings) -> None:
        self._output = output
        self._settings = settings
        self._journal = journals.read(output)
        self._done = dict(self._journal.done)
        before = self._journal.settings
        if before and before != settings.as_json():
            now = settings.as_json()
            changed = [
                f"{name} {before.get(name)}" for name in now if before.get(name) != now[name]
            ]
            raise ValueError(
                f"{output} was prepared with {', '.join(changed)}: use the same values, or another "
                "folder"
            )

    def run(self, paths: Sequence[Path], workers: int) -> tuple[list[Made], int]:
        """Prepare all inputs; returns all shards, and how many bytes of input were processed."""
        found = dict[str, Path]()
        for name, path in _found(paths):
            if found.setdefault(name, path) != path:
                raise ValueError(
                    f"{found[name]} and {path} would both get the name {name}: give the folder "
                    "above them"
                )
        if not found:
            raise ValueError(
                f"no inputs: none of the files in {', '.join(map(str, paths))} ends with "
                f"{', '.join(SUFFIXES)}"
            )
        seen = self._look_at(found)
        inputs = [
            Input(name, str(path), seen[name].num_bytes, seen[name].sha256)
            for name, path in found.items()
        ]
        groups = groups_of(inputs, self._settings, self._journal.together)
        together = dict.fromkeys(tuple(piece.name for piece in one.pieces) for one in groups)
        self._note(
            replace(
                self._journal,
                settings=self._settings.as_json(),
                seen=seen,
                together=[*together],
            )
        )
        missing = [one for one in groups if not self._is_done(one)]
        self._work_on(missing, workers)
        return self._finish(groups), sum(one.num_bytes for one in missing)

    def _look_at(self, found: Mapping[str, Path]) -> dict[str, Seen]:
        """Return the hashes of inputs; unchanged inputs are not read."""
        facts = {name: path.stat() for name, path in found.items()}
        seen = dict[str, Seen]()
        with Progress("comparing inputs", sum(one.st_size for one in facts.values())) as progress:
            for name, path in found.items():
                size, modified = facts[name].st_size, facts[name].st_mtime_ns
                before = self._journal.seen.get(name)
                if before is None or (before.num_bytes, before.modified_ns) != (size, modified):
                    with path.open("rb") as file:
                        before = Seen(size, modified, hash_of(cast("BinaryIO", file)))
                seen[name] = before
                progress.add(size)
        return seen

    def _is_done(self, group: Group) -> bool:
        made = self._done.get(group.key)
        return made is not None and all(self._is_there(one) for one in made)

    def _is_there(self, made: Made) -> bool:
        path = self._output / made.shard.name
        return path.is_file() and path.stat().st_size == made.shard.num_bytes

    def _work_on(self, groups: Sequence[Group], workers: int) -> None:
        with (
            Progress("preparing", sum(one.num_bytes for one in groups)) as progress,
            journals.appending(self._output) as append,
        ):
            for group, made in each_done(groups, self._settings, self._output, workers):
                self._check_unchanged(group)
                append(group.key, made)
                self._done[group.key] = made
                progress.add(group.num_bytes)

    def _check_unchanged(self, group: Group) -> None:
        """Raise ValueError for inputs that have changed since they were compared."""
        for piece in group.pieces:
            facts, seen = Path(piece.path).stat(), self._journal.seen[piece.name]
            if (facts.st_size, facts.st_mtime_ns) != (seen.num_bytes, seen.modified_ns):
                raise ValueError(
                    f"{piece.path} changed during the preparation: run the command again when the "
                    "file no longer changes; finished work is kept"
                )

    def _finish(self, groups: Sequence[Group]) -> list[Made]:
        """Write the manifest, and then remove shards of inputs that have changed or are gone."""
        done = {group.key: self._done[group.key] for group in groups}
        made = sorted(
            (one for some in done.values() for one in some), key=lambda one: one.shard.name
        )
        whole = Manifest(
            [one.shard for one in made],
            {one.shard.name: {"bytes": one.whole_bytes, "tokens": one.tokens} for one in made},
            self._settings.as_json(),
        )
        journals.replace(self._output / manifest.NAME, json.dumps(manifest.encoded(whole)))
        self._note(replace(self._journal, done=done))
        current = {one.shard.name for one in made}
        for path in self._output.iterdir():
            is_shard = path.name.endswith((".bin", ".bin.zst", ".part"))
            if is_shard and path.name not in current:
                path.unlink()
        return made

    def _note(self, journal: Journal) -> None:
        self._journal = journal
        journals.write(self._output, journal)


def prepare(
    paths: Sequence[Path], output: Path, settings: Settings, workers: int
) -> tuple[list[Made], int]:
    """Prepare inputs into a folder; no other process may do that at the same time."""
    output.mkdir(parents=True, exist_ok=True)
    with held_if_free(output / LOCK) as is_held:
        if not is_held:
            raise ValueError(f"another process prepares data in {output} at the moment")
        others = {path.name for path in output.iterdir()} - {LOCK, journals.PART}
        if others and journals.NAME not in others:
            raise ValueError(f"{output} contains other files: choose an empty folder, or a new one")
        return Preparation(output, settings).run(paths, workers)


def _found(paths: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """Yield all inputs by name, in the order of their names."""
    for path in paths:
        if path.is_file():
            yield path.name, path.absolute()
        elif path.is_dir():
            names = sorted(
                (Path(folder) / file).relative_to(path).as_posix()
                for folder, _, files in os.walk(path)
                for file in files
                if file.endswith(SUFFIXES)
                and not file.startswith((".", "_"))
                and file != manifest.NAME
            )
            yield from ((name, (path / name).absolute()) for name in names)
        else:
            raise ValueError(f"{path} is neither a file nor a folder")
