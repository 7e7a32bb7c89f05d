"""Settings for all tests."""

import os

from hypothesis import settings

settings.register_profile("test", deadline=None, max_examples=150)
settings.register_profile("soak", deadline=None, max_examples=20_000)
settings.load_profile(os.environ.get("ARGSTREAM_HYPOTHESIS", "test"))
