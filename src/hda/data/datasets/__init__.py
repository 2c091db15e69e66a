"""Published sets of pictures: one file each, found by being here. `hda list datasets` lists them."""
