"""The command line, `scopegate`: `main` is the group, and each command is the module of its name."""
