"""The inference engines, vLLM and SGLang, and their command lines.

`command.read_command` reads a container's command line; its `engine` is one of two objects of
`engine.Engine`, which answer whatever depends on the engine. `editing.edit` sets and adds
arguments, `launch.launch` writes the commands of a replica that spans several nodes. Everything is
pure: containers come in as Kubernetes writes them, findings and command lines come out.
"""
