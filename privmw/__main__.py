"""The command line for `python -m privmw`."""

import sys

from privmw.cli import main

if __name__ == "__main__":
    sys.exit(main())
