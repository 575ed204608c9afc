"""The command line, `scopegate`: `main` has check, explain, schema and run; other commands have a module each."""
