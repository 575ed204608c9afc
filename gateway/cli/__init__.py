"""The command line, `scopegate`: one module for each command. Each imports what it needs when it runs."""
