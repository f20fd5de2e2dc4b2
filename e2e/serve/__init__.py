"""Real nodes, engines and gateways on one machine."""
