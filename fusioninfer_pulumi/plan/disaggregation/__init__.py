"""How prefill and decode pods work on one request: what their pods get beside the template."""
