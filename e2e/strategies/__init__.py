"""Endpoint pickers get real requests, and say which pod each of them goes to."""
