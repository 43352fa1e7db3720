"""The command line `spotrun data`: `prepare` makes shards of tokens, `index` a manifest."""

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from spotrun_trainer.data.formats.token_file import DTYPES
from spotrun_trainer.data.prepare.index import index
from spotrun_trainer.data.prepare.plan import Settings
from spotrun_trainer.data.prepare.prepare import prepare
from spotrun_trainer.data.prepare.tokenizers import Tokenizer, tokenizer_of
from spotrun_trainer.process.commands.arguments import size_argument
from spotrun_trainer.process.commands.running import run
from spotrun_trainer.process.commands.texts import size_text
from spotrun_trainer.store.addresses import is_address

_ABOUT = "Prepare data for training: no cluster and no GPU is needed."

_PREPARE = """\
Make shards of tokens from texts: .txt and .md (a document is a file), .jsonl (a line), .parquet (a
row). Each document is tokenized and its end is marked. The shards contain the documents one after
another; `TokenFile` maps them into memory.

If you run it again, it processes only files that are new or have changed, and removes the tokens of
files that are gone. If it was killed, the next run continues where it stopped."""

_PREPARE_EXAMPLES = """\
examples:
  the texts of a folder, with the tokenizer of a model, in 8 processes:
      spotrun data prepare corpus/ --tokenizer gpt2 --output tokens/ --workers 8

  your own function in my_tokens.py, which gets a text and returns a list of numbers:
      PYTHONPATH=. spotrun data prepare corpus/ --tokenizer my_tokens:encode --output tokens/

  then upload the folder with its manifest, and train:
      aws s3 sync tokens/ s3://bucket/tokens/
      data = open_dataset("s3://bucket/tokens", length=1025, stride=1024)   # in the script

Exit codes: 0 done; 2 the arguments are wrong, or something cannot be read or written; 130
interrupted, and the finished part is kept.
"""

_INDEX = """\
Write a manifest beside existing shards: what each contains, and its hash. With it, a training that
reads from an object store begins without opening each shard, and copies on nodes are compared with
the manifest. Run it in the folder before the upload, and again when files have changed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; exits if the usage was wrong."""
    return run(_parser().parse_args(argv), (ValueError, OSError))


def run_prepare(chosen: Namespace) -> int:
    """Prepare data, and print what was made."""
    if is_address(chosen.output) or any(is_address(one) for one in chosen.input):
        raise ValueError(
            "prepare reads and writes folders: copy its inputs and its output with the tool of your"
            " cloud, as `aws s3 sync`"
        )
    tokenizer = tokenizer_of(chosen.tokenizer)
    settings = Settings(
        tokenizer=chosen.tokenizer,
        column=chosen.column,
        dtype=chosen.dtype or _dtype_for(tokenizer),
        end=tokenizer.end if chosen.end_token is None else chosen.end_token,
        shard_bytes=chosen.shard_size,
        is_packed=chosen.zstd,
    )
    inputs = [Path(one) for one in chosen.input]
    made, worked = prepare(inputs, Path(chosen.output), settings, chosen.workers)
    tokens, size = sum(one.tokens for one in made), sum(one.shard.num_bytes for one in made)
    print(
        f"{chosen.output}: {tokens} tokens in {len(made)} shards ({size_text(size)}, "
        f"{settings.dtype}); {size_text(worked)} of input were new or had changed"
    )
    return 0


def run_index(chosen: Namespace) -> int:
    """Index data, and print what the manifest contains."""
    made = index(Path(chosen.folder), chosen.dtype)
    size = sum(shard.num_bytes for shard in made.shards)
    print(f"{chosen.folder}: {len(made.shards)} shards ({size_text(size)}) are in the manifest")
    return 0


def _dtype_for(tokenizer: Tokenizer) -> str:
    return DTYPES[tokenizer.size is not None and tokenizer.size > 1 << 16]


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="spotrun", allow_abbrev=False)
    choices = parser.add_subparsers(metavar="COMMAND", required=True)
    data = choices.add_parser("data", help=_ABOUT, description=_ABOUT, allow_abbrev=False)
    verbs = data.add_subparsers(metavar="COMMAND", required=True)
    _describe_prepare(
        verbs.add_parser(
            "prepare",
            help="make shards of tokens from texts",
            description=_PREPARE,
            epilog=_PREPARE_EXAMPLES,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
    )
    to_index = verbs.add_parser(
        "index",
        help="write a manifest beside existing shards",
        description=_INDEX,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    to_index.add_argument("folder", help="the folder with shards of one format")
    to_index.add_argument(
        "--dtype",
        choices=DTYPES,
        help="type of the tokens in the files; default: uint32 for .u32, else uint16",
    )
    to_index.set_defaults(run=run_index, prog=to_index.prog)
    return parser


def _describe_prepare(parser: ArgumentParser) -> None:
    parser.add_argument("input", nargs="+", help="files, and folders with everything below them")
    parser.add_argument("--output", required=True, metavar="FOLDER", help="the folder of shards")
    parser.add_argument(
        "--tokenizer",
        required=True,
        metavar="NAME",
        help="a model's name or folder (by transformers), a tokenizer.json (by tokenizers), a "
        "function as module:function, or `bytes` for the bytes of UTF-8",
    )
    parser.add_argument(
        "--column",
        default="text",
        help="the column of .jsonl and .parquet with the texts; default: text",
    )
    parser.add_argument(
        "--end-token",
        type=int,
        metavar="NUMBER",
        help="the token after each document; default: the model's end of sequence, else none",
    )
    parser.add_argument(
        "--dtype", choices=DTYPES, help="default: uint16, or uint32 for more than 65,536 tokens"
    )
    parser.add_argument(
        "--shard-size",
        type=size_argument,
        default=128 << 20,
        metavar="SIZE",
        help="size of a shard before compression; default: 128MiB",
    )
    parser.add_argument("--zstd", action="store_true", help="compress shards, in frames")
    parser.add_argument(
        "--workers",
        type=_count,
        default=len(os.sched_getaffinity(0)),
        metavar="N",
        help="number of processes; default: one for each CPU",
    )
    parser.set_defaults(run=run_prepare, prog=parser.prog)


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is no number of processes")
    return int(text)
