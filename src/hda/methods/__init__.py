"""One method, one file: found by being here."""
