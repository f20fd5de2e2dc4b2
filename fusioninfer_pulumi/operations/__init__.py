"""Autoscaling, disruption budgets and monitoring: what is planned, and the objects."""
