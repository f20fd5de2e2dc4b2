"""Plans and builds a service's endpoint picker, InferencePool, HTTPRoute and Gateway."""
