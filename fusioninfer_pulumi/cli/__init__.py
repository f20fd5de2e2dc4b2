"""The command line `fusioninfer-pulumi`. It needs no Pulumi CLI, and a cluster only on request."""
