"""Writes what short fields of a spec stand for into the pod templates, before anything is planned.

`parallelism`, `model`, `resourceClaims` and the like ask for arguments, mounts, variables and
containers that a user could have written into the templates as well. Once they stand there,
launchers, wiring, sums of requests, gangs and revisions see one form, and need not know them.
"""
