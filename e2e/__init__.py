"""End-to-end tests of generated manifests on real components; see README.md."""
