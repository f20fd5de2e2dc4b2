"""Rules of findings: what each checks, and which of them a user ignores."""
