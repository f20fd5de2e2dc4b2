"""The inference engines, vLLM and SGLang, and their command lines.

`engine_commands.parse_command` parses a container's command line and recognizes its `Engine`, an
object with the facts about vLLM or SGLang. `command_editing.edit_command` sets and adds arguments;
`launchers.build_command` returns the commands of a replica that spans several nodes. All
functions are pure: containers are plain Kubernetes objects, and results are findings and command
lines.
"""
