"""Which of these tests belong to which run."""

import os

# What the compiled form costs is measured in the run of the compiled form, not twice.
collect_ignore = ["test_compiled_costs.py"] if os.environ.get("PENSTOCK_EXPECT") == "interpreted" else []
