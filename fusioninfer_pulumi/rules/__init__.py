"""Texts and examples of rules, and rules that several packages use."""
