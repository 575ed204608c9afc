"""Policy files: `load` reads and checks a file, `model` has its typed values, `compile` makes the `rules` that the
gateway evaluates, `explain` explains their decisions.

Pure: uses pydantic, ruamel.yaml and the standard library; no other package of this project.
"""
