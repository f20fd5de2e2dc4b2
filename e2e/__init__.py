"""Proof of the generated manifests on the real programs that read them; see README.md."""
