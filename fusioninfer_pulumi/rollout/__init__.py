"""The order of an update, and the changes that no update can make."""
