"""`python -m fusioninfer_pulumi.provider` runs the Pulumi plugin."""

from fusioninfer_pulumi.provider.server import main

main()
