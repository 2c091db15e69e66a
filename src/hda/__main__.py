"""`python -m hda` is the command `hda`."""

import sys

from hda.cli.main import main

sys.exit(main())
