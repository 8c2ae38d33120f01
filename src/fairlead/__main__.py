"""Run the command ``fairlead`` by ``python -m fairlead``, for when it is not on the path."""

import sys

from fairlead.cli.main import run

if __name__ == "__main__":
    sys.exit(run())
