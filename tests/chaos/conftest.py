"""The test bed is a package, which its programs import as `chaos`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
