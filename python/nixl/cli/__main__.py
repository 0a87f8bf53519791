"""`python -m nixl.cli` is the console command `nixl` where that is not installed."""

import sys

from . import main

sys.exit(main())
