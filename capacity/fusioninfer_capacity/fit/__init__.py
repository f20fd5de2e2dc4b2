"""Whether a model fits the memory of its accelerators: weights, overhead and KV cache of each."""
