"""What a command finds in its environment: all that we have, but for the keys that we read there.

A key that a command prints is read by the model, kept in the log, and shown to all who watch.
"""

from collections.abc import Mapping
from typing import Final

from argstream.clients.http.providers import PROVIDERS

__all__ = ["without_keys"]

_KEYS: Final = frozenset(
    {
        "ARGSTREAM_TOKEN",
        "ARGSTREAM_STORE",  # which may have a password in it
        *(
            name
            for provider in PROVIDERS.values()
            for name in (*provider.key_variables, provider.token_variable)
        ),
    }
)


def without_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Give the environment without what argstream reads keys, tokens and passwords from."""
    return {name: value for name, value in environment.items() if name not in _KEYS}
