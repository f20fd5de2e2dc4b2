"""`python -m fusioninfer_pulumi`: the command line, if its script is not on the PATH."""

import sys

from fusioninfer_pulumi.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
