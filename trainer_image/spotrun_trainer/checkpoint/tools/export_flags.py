"""The flags of `spotrun export`."""

from argparse import ArgumentParser

from spotrun_trainer.process.commands.arguments import size_argument

FORMATS = ("safetensors", "torch", "hf", "dcp")

ABOUT = """\
Write the model of a checkpoint in a format that other programs read: whole tensors under the names
of its state_dict(), however many processes saved it. Only a few pieces of a tensor are in memory at
a time."""

EXAMPLES = """\
examples:
  for Hugging Face's from_pretrained, with the configuration and tokenizer of the base model:
      spotrun export checkpoints/ --format hf --config base-model/ --output my-model/

  one file of weights, and a torch checkpoint from which another training can continue:
      spotrun export checkpoints/step-500.g1 --format safetensors --output model.safetensors
      spotrun export checkpoints/step-500.g1 --format dcp --with-optimizer --output dcp/

Exit codes: 0 done; 2 the arguments are wrong, or something cannot be read or written; 130
interrupted. An export that did not finish leaves no files.
"""


def describe(parser: ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument(
        "checkpoint", help="FOLDER/step-N.gG, or a folder: its newest complete checkpoint"
    )
    parser.add_argument("--format", required=True, choices=FORMATS)
    parser.add_argument(
        "--output", metavar="PATH", help="default: the checkpoint's name, in this directory"
    )
    parser.add_argument(
        "--object", metavar="NAME", help="the tracked module; needed if there are several"
    )
    parser.add_argument(
        "--with-optimizer",
        nargs="?",
        const="",
        metavar="NAME",
        help="torch and dcp: export the optimizer too",
    )
    parser.add_argument(
        "--prefix",
        default="",
        help="only tensors whose names begin with this prefix, which is removed from the names",
    )
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument(
        "--shard-size",
        type=size_argument,
        metavar="SIZE",
        help="safetensors and hf: a folder with files of at most this size (hf: 5GB)",
    )
    sizes.add_argument("--gather", action="store_true", help="one file, whatever its size")
    parser.add_argument(
        "--config",
        metavar="FOLDER",
        help="hf: copy its files except weights, such as config and tokenizer",
    )
    parser.add_argument("--force", action="store_true", help="replace an existing export")
    parser.add_argument(
        "--no-verify",
        dest="verify",
        action="store_false",
        help="do not compare hashes first; lengths and manifests are still compared",
    )
