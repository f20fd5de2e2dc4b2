"""Runs a user's Pulumi project in a child process and records the objects that it registers.

No Pulumi CLI, engine, cluster or network is needed, because the SDK talks to a resource monitor in
the child process. Only the child process imports pulumi.
"""
