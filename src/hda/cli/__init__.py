"""The command `hda`. Each command is one file in `hda.cli.commands`."""
