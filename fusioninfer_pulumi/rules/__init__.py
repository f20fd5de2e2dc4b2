"""Texts and examples of rules, and the rules that users ignore."""
