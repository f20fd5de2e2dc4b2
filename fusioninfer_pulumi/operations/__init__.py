"""Autoscaling, disruption budgets and monitoring: their plans and objects."""
