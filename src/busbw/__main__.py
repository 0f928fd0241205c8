"""`python -m busbw` is the command `busbw`."""

import sys

from busbw.cli.entry_point import main

sys.exit(main())
