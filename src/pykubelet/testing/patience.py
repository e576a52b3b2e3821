"""How much longer tests wait than on an ordinary machine."""

import os

PATIENCE = float(os.environ.get("PYKUBELET_TEST_PATIENCE", "1"))
"""Factor on all that tests wait for at most; above 1 for machines as slow as an emulated one."""
