"""How much is tried: little in the test suite, much with HYPOTHESIS_PROFILE=long."""

from __future__ import annotations

import os

from hypothesis import HealthCheck

CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.large_base_example]

FACTOR = 200 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 1
"""How many times as many inputs as the test suite tries."""
