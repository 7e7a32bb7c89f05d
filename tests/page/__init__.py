"""Tests of the page: a real browser, the real server, a model that follows a script."""
