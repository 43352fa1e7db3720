"""The flags of `kubectl tjob report` on its command line, and their help.

Standard library only: help answers at once, and also if nothing else is installed.
"""

import argparse

from spotrun.cli.cluster import flags

_EXAMPLES = """\
  one HTML file to send to somebody; it needs no other file and no network:
      kubectl tjob report gpt --file gpt.html

  the same as Markdown, for an issue or a wiki, and as JSON:
      kubectl tjob report gpt -o markdown
      kubectl tjob report gpt -o json

  the report of a search; its trials are lines over the parameters:
      kubectl tjob report lr-search --search --file lr-search.html
"""


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the flags to a parser."""
    flags.describe(parser, _EXAMPLES, "NAME [--search] [-o html|markdown|json] [--file FILE]")
    flags.add_name(parser)
    parser.add_argument("--search", action="store_true", help="NAME is a TuningJob")
    parser.add_argument(
        "-o", "--output", choices=("html", "markdown", "json"), default="html", help="default: html"
    )
    parser.add_argument("--file", metavar="FILE", help="write it there (default: print it)")
