"""Endpoint picker images by family, and the configuration that each understands.

`families` has what each release registers, reads and rejects, and finds the family of an image.
`flags` writes its command line. `intent` is what a router role asks for. `config` writes its
EndpointPickerConfig, and reads one that a user wrote. `sidecar` has the releases of the
prefill/decode sidecar.
"""
