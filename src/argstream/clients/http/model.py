"""A model that is asked over HTTP.

One request makes one answer, a stream of bytes. Until its first event has come, whatever fails is
tried again if that may help, and raises ``ProviderFailure`` if it does not; an answer that begins
with an error event is one that has not begun. From then on nothing is asked twice: a connection
that breaks off, or says nothing for too long, raises a ``ProviderFailure`` with the code
``connection_lost`` or ``timeout``.
"""

import json
import logging
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

import httpx2
import msgspec

from argstream.adapters import ProtocolName
from argstream.clients.apis import Api
from argstream.clients.http._answer import Answer, Timeouts, ask
from argstream.clients.http._connections import Connections
from argstream.clients.http._failures import Asked
from argstream.clients.http._retries import Retries
from argstream.clients.http._secrets import Hidden, Key
from argstream.clients.http.providers import checked_base_url, find_provider
from argstream.clients.request import ModelRequest, ModelSettings
from argstream.errors import UsageError

__all__ = ["HttpModel", "Retries", "Timeouts", "make_model"]

_logger = logging.getLogger("argstream.clients")

_HEADERS: Final = {
    "accept": "text/event-stream, application/json",
    # As it is written: what is compressed comes in larger pieces, and later.
    "accept-encoding": "identity",
    "content-type": "application/json",
    "user-agent": "argstream",
}
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def make_model(  # noqa: PLR0913 - all but the name by name, and rarely
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    timeout: float | Timeouts | None = None,
    retries: int | Retries | None = None,
    http_client: httpx2.AsyncClient | None = None,
) -> "HttpModel":
    """Make a model of its name: ``anthropic:claude-opus-4-7``, ``openai:gpt-5``, ``ollama:qwen3``.

    The key is ``api_key``, or the provider's usual environment variable, which is read for each
    request. With a ``base_url`` any server that has the provider's API is asked, with a key only
    if there is one. ``timeout`` is how long to wait for a sign of life; ``Timeouts`` says more.
    ``retries`` is how often a request is made again to which no answer has begun. An
    ``http_client`` is used as it is, and stays open when the model is closed.

    >>> make_model("vllm:qwen3", base_url="http://10.0.0.7:8000/v1")
    <HttpModel vllm:qwen3 at http://10.0.0.7:8000/v1>
    """
    given = Hidden(api_key)
    del api_key  # what follows may fail, and a traceback may show the variables here
    provider, model = find_provider(name)
    if base_url is not None:
        address = checked_base_url(base_url, "base_url")
    elif (set_url := provider.base_url_set()) is not None:
        address = checked_base_url(set_url, f"${provider.url_variable}")
    else:
        address = provider.base_url
    return HttpModel(
        name.strip(),
        model=model,
        api=provider.api(address),
        base_url=address,
        key=Key(
            given,
            provider.key_variables,
            token_variable=provider.token_variable,
            provider=provider.name,
            is_needed=provider.needs_key and address == provider.base_url,
        ),
        timeouts=_timeouts(timeout),
        retries=_retries(retries),
        http_client=http_client,
    )


def _timeouts(timeout: float | Timeouts | None) -> Timeouts:
    if timeout is None:
        return Timeouts()
    if isinstance(timeout, Timeouts):
        return timeout
    return Timeouts(first_byte=timeout, idle=timeout)


def _retries(retries: int | Retries | None) -> Retries:
    if retries is None:
        return Retries()
    return retries if isinstance(retries, Retries) else Retries(most=retries)


class HttpModel:
    """A model over HTTP; ``make_model`` makes one. ``aclose()`` closes its connections.

    It may be used by many tasks at once, and in several event loops.
    """

    def __init__(  # noqa: PLR0913 - by name, and mostly by make_model
        self,
        name: str,
        *,
        model: str,
        api: Api,
        base_url: str,
        key: Key,
        timeouts: Timeouts,
        retries: Retries,
        http_client: httpx2.AsyncClient | None = None,
    ) -> None:
        self.name = name
        self.protocol: ProtocolName = api.protocol
        self.base_url = base_url
        self._model = model
        self._api = api
        self._key = key
        self._timeouts = timeouts
        self._retries = retries
        self._connections = Connections(http_client)

    def __repr__(self) -> str:
        return f"<HttpModel {self.name} at {self.base_url}>"

    def require_key(self) -> None:
        """Raise UsageError if there is no key where one is needed: each request would."""
        self._key.value()

    async def aclose(self) -> None:
        """Close the connections of this event loop. The next request opens new ones."""
        await self._connections.close()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[bytes, None]:
        """Ask for a turn, and give the bytes of the answer as they come.

        Raises ``ProviderFailure`` if no answer begins, or if it breaks off; ``UsageError`` if there
        is no key, or if the request is one that cannot be made. Closing the generator closes the
        connection.
        """
        content = _written(self._api.body(self._model, request))
        headers = _Headers(self._api, self._key, request.settings)
        answer = await self._answer(content, headers)
        async with aclosing(answer.chunks()) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _answer(self, content: bytes, headers: "_Headers") -> Answer:
        """Ask until an answer begins."""
        asked = Asked(
            name=self.name,
            model=self._model,
            url=f"{self.base_url}{self._api.path}",
            key=self._key.origin,
        )
        made, waited = 0, 0.0
        while True:
            client = await self._connections.client()
            request = headers.put_on(client, asked.url, content, self._timeouts)
            answer = await ask(
                client,
                request,
                asked.hiding(request.headers),
                times=self._timeouts,
                protocol=self.protocol,
                now=self._retries.now(),
            )
            if isinstance(answer, Answer):
                return answer
            made += 1
            wait = self._retries.wait(made, waited, answer.told_wait) if answer.again else None
            if wait is None:
                raise answer.after(made)
            waited += wait
            _logger.info("%s: %s; trying again in %.1f s", asked.name, answer.failure.code, wait)
            await self._retries.sleep(wait)


class _Headers:
    """The headers of a request. They hold the key, so no variable that is shown may hold them."""

    __slots__ = ("_headers",)

    def __init__(self, api: Api, key: Key, settings: ModelSettings) -> None:
        """Put together what the API needs, and what the settings say."""
        odd = next((name for name, value in settings.headers.items() if _is_odd(name, value)), None)
        if odd is not None:
            raise UsageError(
                f"the header {odd!r} has characters in it that no header can have, or is no text"
            )
        self._headers = httpx2.Headers(_HEADERS)
        self._headers.update(api.headers(None if key.is_token else key.value()))
        if key.is_token:
            self._headers["authorization"] = f"Bearer {key.value()}"
        self._headers.update({name: value.strip() for name, value in settings.headers.items()})

    def put_on(
        self, client: httpx2.AsyncClient, url: str, content: bytes, times: Timeouts
    ) -> httpx2.Request:
        # How long to wait for bytes is decided where they are read: not as long for all of them.
        timeout = httpx2.Timeout(connect=times.connect, read=None, write=times.idle, pool=None)
        return client.build_request(
            "POST", url, content=content, headers=self._headers, timeout=timeout
        )


def _is_odd(name: object, value: object) -> bool:
    if not isinstance(name, str) or not isinstance(value, str):
        return True
    return not (_HEADER_NAME.fullmatch(name) and value.isascii() and value.isprintable())


def _written(body: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except (UnicodeEncodeError, OverflowError):
        # Half a surrogate pair, or a number of more than 64 bits, which a model may have written.
        return json.dumps(body).encode()
    except TypeError as error:
        raise UsageError(f"the request cannot be written as JSON: {error}") from None
