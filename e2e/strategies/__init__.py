"""Load balancing of real endpoint pickers."""
