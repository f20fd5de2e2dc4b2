"""`python -m fusioninfer_pulumi.provider`: the plugin."""

from fusioninfer_pulumi.provider.server import main

main()
