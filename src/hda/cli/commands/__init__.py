"""One file a command: its docstring is its help, `arguments` its options, `run` what it does."""
