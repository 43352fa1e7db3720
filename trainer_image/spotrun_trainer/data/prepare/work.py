"""The work on one group: its texts become shards of tokens, each put in place by a rename."""

import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path

from spotrun_trainer.data.formats.zstd import FRAME_BYTES, write_frames
from spotrun_trainer.data.places import Shard
from spotrun_trainer.data.prepare.documents import documents
from spotrun_trainer.data.prepare.plan import Group, Settings
from spotrun_trainer.data.prepare.tokenizers import Tokenizer

_TEXTS = 256
_CODES = {"uint16": "H", "uint32": "I"}


@dataclass(frozen=True)
class Made:
    """A shard that was made."""

    shard: Shard
    whole_bytes: int
    tokens: int


def make_shards(group: Group, settings: Settings, tokenizer: Tokenizer, output: Path) -> list[Made]:
    """Make all shards of a group; an incomplete shard from before is replaced."""
    made, tokens = list[Made](), array(_CODES[settings.dtype])
    most = settings.shard_bytes // tokens.itemsize
    for some in _encoded(group, settings, tokenizer):
        try:
            tokens.extend(some)
        except OverflowError:
            raise ValueError(
                f"a token of {group.pieces[0].path} does not fit into {settings.dtype}: its "
                f"numbers are {min(some)} to {max(some)}. Use --dtype uint32"
            ) from None
        if len(tokens) >= most:
            made.append(_write(group, len(made), tokens, settings, output))
            del tokens[:]
    if tokens:
        made.append(_write(group, len(made), tokens, settings, output))
    return made


def _encoded(group: Group, settings: Settings, tokenizer: Tokenizer) -> Iterator[Sequence[int]]:
    """Yield the tokens of each document, with its end token."""
    end = [] if settings.end is None else [settings.end]
    for piece in group.pieces:
        texts = documents(piece, settings.column)
        while some := list(islice(texts, _TEXTS)):
            for tokens in tokenizer.encode(some):
                yield [*tokens, *end]


def _write(
    group: Group, number: int, tokens: "array[int]", settings: Settings, output: Path
) -> Made:
    name = f"{group.key}-{number:05}.bin{'.zst' if settings.is_packed else ''}"
    content = tokens.tobytes()
    part = output / f".{name}.part"
    with part.open("wb") as file:
        if settings.is_packed:
            frames = (content[at : at + FRAME_BYTES] for at in range(0, len(content), FRAME_BYTES))
            write_frames(frames, file)
        else:
            file.write(content)
        file.flush()
        os.fsync(file.fileno())
    packed = part.read_bytes() if settings.is_packed else content
    part.replace(output / name)
    digest = sha256(packed).hexdigest()
    return Made(Shard(name, len(packed), digest, digest), len(content), len(tokens))
