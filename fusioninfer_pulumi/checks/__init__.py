"""Checks of planned services, and `plan_service`, which builds a service and runs them."""
