"""The plan of a service, and its objects."""
