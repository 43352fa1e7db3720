"""`spotrun operator`: the operator's process, from options to exit code."""

import errno
import logging
import sys

import uvloop

from spotrun.kube.rest.access import AccessError
from spotrun.runtime import kopf_host, log_format
from spotrun.runtime.assembly import assemble
from spotrun.runtime.options import Options

log = logging.getLogger(__name__)

BROKEN, WRONGLY_STARTED = 1, 2

_NOT_TO_BE_HAD = frozenset({errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES})
_PORTS = (
    "; choose other ports with --agents-port, --metrics-port and --liveness-port, or other "
    "addresses with --agents-host and --metrics-host"
)


def run(options: Options) -> int:
    """Run the operator until it is told to end; returns the exit code."""
    log_format.set_up(options.log_format, options.level)
    try:
        uvloop.run(_operate(options))
    except (AccessError, ValueError) as error:
        print(f"spotrun operator: {error}", file=sys.stderr)
        return WRONGLY_STARTED
    except OSError as error:
        hint = _PORTS if error.errno in _NOT_TO_BE_HAD else ""
        log.error("the operator ends: %s%s", error, hint)  # noqa: TRY400 - no traceback needed
        return BROKEN
    except Exception:
        log.exception("the operator ends because of a bug in it: please report this")
        return BROKEN
    log.info("the operator has ended")
    return 0


async def _operate(options: Options) -> None:
    where = (options.metrics_host, options.liveness_port)
    await kopf_host.host(await assemble(options), liveness=where)
