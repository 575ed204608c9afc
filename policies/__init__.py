"""Policy files: `load` reads and checks a file, `model` has its sections, `compile` makes the `rules` that the gateway
evaluates, `explain` explains their decisions. Below them are `text` (YAML with positions, mistakes), `parts` (valid by
themselves), `values` (units, hosts, patterns) and `checks` across parts.

Pure: uses pydantic, ruamel.yaml, PyYAML and the standard library; no other package of this project.
"""
