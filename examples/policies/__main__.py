"""A policy pack for stacks that serve models: copy it and change the limits in `policies.py`."""

from policies import POLICIES
from pulumi_policy import EnforcementLevel, PolicyPack

PolicyPack("models", POLICIES, enforcement_level=EnforcementLevel.MANDATORY)
