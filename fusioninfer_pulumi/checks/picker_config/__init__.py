"""Checks of an EndpointPickerConfig that a user wrote: `checks` has the list."""
