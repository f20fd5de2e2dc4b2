"""Endpoint picker images by family, and the configuration that each understands.

`picker_families` has what each release registers, reads and rejects, and finds the family of an
image. `picker_intent` is what a router role asks for. `picker_config` writes the
EndpointPickerConfig and the command line, and reads a user's configuration. `sidecar_releases` has
the releases of the prefill/decode sidecar.
"""
