"""`python -m gateway.cli` is `scopegate`, for where the command is not on the path."""

from __future__ import annotations

from gateway.cli.main import main

if __name__ == "__main__":
    main()
