"""Checks of disruption budgets, autoscalers and monitors: `checks` has the list."""
