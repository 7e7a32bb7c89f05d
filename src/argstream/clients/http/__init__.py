"""Models over HTTP: who can be asked, with which key, how often and how long."""

from argstream.clients.http.model import HttpModel, Retries, Timeouts, make_model

__all__ = ["HttpModel", "Retries", "Timeouts", "make_model"]
