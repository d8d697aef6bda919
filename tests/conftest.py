"""What all tests share: reproducible property tests that no busy machine can make flaky."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fluxctl", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("fluxctl")
