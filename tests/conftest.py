"""Settings for all tests."""

import os

from hypothesis import HealthCheck, settings

# No deadlines and no complaint about slowness: the machine may be busy with something else.
_patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("test", max_examples=150, **_patient)  # type: ignore[arg-type]
settings.register_profile("soak", max_examples=5_000, **_patient)  # type: ignore[arg-type]
settings.load_profile(os.environ.get("ARGSTREAM_HYPOTHESIS", "test"))
