"""Writes the containers of roles that leave them out: from the spec to the expanded spec."""
