"""What `hda bench` does: one file for each of its words."""
