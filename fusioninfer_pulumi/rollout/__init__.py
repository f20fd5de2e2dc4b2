"""The order and the steps of an update, and the revisions that it mixes."""
