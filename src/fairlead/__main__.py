"""``python -m fairlead``: the command, where its script is not on the path."""

import sys

from fairlead.cli.main import run

if __name__ == "__main__":
    sys.exit(run())
