"""The factor on the time limits of tests, for slow machines."""

import os

PATIENCE = float(os.environ.get("PYKUBELET_TEST_PATIENCE", "1"))
"""Factor on all time limits of tests; above 1 for slow machines, such as emulated ones."""
