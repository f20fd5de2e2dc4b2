"""What is known about endpoint picker images, and the configuration that each understands.

`families`, `plugins` and `flags` have what each release registers, reads and refuses. `images`
finds the family of an image. `intent` is what a router role asks for. `config` writes its
EndpointPickerConfig, `config_text` reads one that a user wrote, and `checks/picker_config` judges
it. `sidecar` has the releases of the prefill/decode sidecar.
"""
