"""Rules of routing that several modules check."""
