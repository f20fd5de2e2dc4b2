"""The library on the real Pulumi engine, against the local cluster."""
