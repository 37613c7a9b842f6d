"""`gradcheck` and `python -m gradcheck_cli`."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Runs the command line and exits."""
    try:
        from gradcheck_cli.cli.app import main as start
    except KeyboardInterrupt:  # amid the imports: nothing has begun
        sys.exit(130)
    start()


if __name__ == "__main__":
    main()
