"""A cluster that serves: real nodes, real engines and a real gateway on one machine."""
