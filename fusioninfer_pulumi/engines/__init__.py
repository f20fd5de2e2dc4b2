"""What is known about the command lines of the inference engines, vLLM and SGLang.

`command` reads a container's command line, `parallelism` counts the accelerators that it needs,
`table` answers the other questions (port, health path, block size, versions, KV connectors), and
`launch` writes the commands of a replica that spans several nodes. Everything is pure: containers
come in as Kubernetes writes them, statements and command lists come out.
"""
