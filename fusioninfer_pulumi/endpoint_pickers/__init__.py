"""Endpoint pickers: the supported images, and the configuration and flags generated for them.

`picker_families` has the facts about each release and about the prefill/decode sidecar, and finds
the family of an image. `picker_choice` chooses a router role's strategy, features and image.
`picker_config` writes the EndpointPickerConfig and the command line, and reads a user's
configuration.
"""
