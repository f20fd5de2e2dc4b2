"""Endpoint picker, InferencePool, HTTPRoute and Gateway: what is planned, and the objects."""
