"""`gradcheck` and `python -m gradcheck_cli`."""

from __future__ import annotations

from gradcheck_cli.cli.app import main

if __name__ == "__main__":
    main()
