"""The flags of `kubectl tjob ui` on its command line, and their help.

Standard library only: help answers at once, and also if nothing else is installed.
"""

import argparse

from spotrun.cli.cluster import flags

_EXAMPLES = """\
  all jobs that you may see, in your browser:
      kubectl tjob ui

  one namespace, from a machine without a browser (then open the address through a tunnel:
  ssh -L 8765:127.0.0.1:8765 HOST):
      kubectl tjob ui -n ml --no-open --port 8765
"""


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the flags to a parser."""
    flags.describe(parser, _EXAMPLES, "[-n NAMESPACE] [--port PORT] [--no-open]")
    parser.add_argument("--port", type=_port, default=0, metavar="PORT", help="default: a free one")
    parser.add_argument(
        "--no-open", action="store_true", help="print the address, and open no browser"
    )


_SERVED = """\
  in a pod, as the chart starts it:
      spotrun page --host spotrun.example.com --authenticated-by oauth2-proxy
"""


def describe_served(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the page that a cluster serves."""
    usage = "--host NAME --authenticated-by WORDS [-n NAMESPACE] [--port PORT] [--with-logs]"
    flags.describe(parser, _SERVED, usage)
    parser.add_argument(
        "--host",
        action="append",
        required=True,
        metavar="NAME",
        help="a host name that browsers use, with a port if any; may be given several times",
    )
    parser.add_argument(
        "--authenticated-by",
        type=_authentication,
        required=True,
        metavar="WORDS",
        help="what authenticates visitors in front of this page and lets in only people who may "
        "see all jobs: the page itself authenticates nobody",
    )
    parser.add_argument("--port", type=_port, default=8080, metavar="PORT", help="default: 8080")
    parser.add_argument(
        "--with-logs",
        action="store_true",
        help="show logs too; the page's account needs that right",
    )


def _authentication(text: str) -> str:
    if text.strip():
        return text
    raise argparse.ArgumentTypeError("say what authenticates the visitors: this page does not")


def _port(text: str) -> int:
    if text.isdecimal() and int(text) <= 65_535:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port; it is a number from 0 to 65535")
