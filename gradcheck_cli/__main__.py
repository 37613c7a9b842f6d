"""`gradcheck` and `python -m gradcheck_cli`."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Runs the command line and exits."""
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
