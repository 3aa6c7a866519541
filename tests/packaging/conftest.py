"""What tests of deploy/ share."""

from __future__ import annotations

import sys
from pathlib import Path

# Tests are imported without a package (--import-mode=importlib): modules beside them, and samples.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "cache")]
