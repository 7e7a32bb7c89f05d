"""Async tests of this folder run in an event loop that must be left without tasks."""

from tests.streaming.conftest import pytest_pyfunc_call

__all__ = ["pytest_pyfunc_call"]
