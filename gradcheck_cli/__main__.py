"""`gradcheck` and `python -m gradcheck_cli`."""

from __future__ import annotations

import gc
import sys
from typing import NoReturn

_COLLECTED_EVERY = 100_000
"""Objects. The imports of a command make fewer, and no garbage: with Python's 700 the collector
looks through them a hundred times, a tenth of a small run."""


def main() -> NoReturn:
    """Runs the command line and exits."""
    gc.set_threshold(_COLLECTED_EVERY)
    try:
        from gradcheck_cli.cli.signals import install, leave

        install(leave)
    except KeyboardInterrupt:  # amid these few imports
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)
    from gradcheck_cli.cli.app import main as start

    start()


if __name__ == "__main__":
    main()
