r"""Readers, for those who want arguments and not events: ask a call, and wait for the answer.

::

    async with stream(source) as events:
        async for call in events.live_calls():                 # as soon as a call starts
            if call.name == "write":
                path = await call.argument("path", type=str)   # settled, though the call goes on
                async for piece in call.text("content"):       # grows on the screen
                    editor.append(path, piece)
            elif call.name == "edit":
                async for edit in call.items("edits"):         # each when it is whole
                    preview(edit)
            run(call.name, await call.arguments())             # complete, or an error

With a sync source the same names are there without ``await``:

>>> from argstream import stream
>>> head = '{"choices": [{"delta": {"tool_calls": [{"index": 0, '
>>> chunks = [
...     head + r'"id": "c1", "function": {"name": "write", "arguments": "{\"path\": \"a.p"}}]}}]}',
...     head + r'"function": {"arguments": "y\", \"content\": \"import"}}]}}]}',
...     head + r'"function": {"arguments": " os\"}"}}]}}]}',
...     '{"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}',
... ]
>>> for call in stream(chunks).live_calls():
...     print(call.name, call.argument("path"), call.verdict)
...     print(list(call.text("content")), call.verdict)
...     print(call.arguments(), call.verdict)
write a.py open
['import', ' os'] open
{'path': 'a.py', 'content': 'import os'} complete
>>> call.argument("mode")
Traceback (most recent call last):
argstream.errors.ArgumentUnavailable: 'mode' of 'write' did not come: it has 'path', 'content'

Nothing is queued. A reader looks into the value that the call has anyway, and a step of ``text``
gives all that has come since the last one; one that nobody asks costs nothing. Nothing is fetched
but for someone who waits.

A path that cannot come any more is told as soon as that is certain, with what did come
(``ArgumentUnavailable``); so is a call that turns out malformed, or is cut off, or closed by
leaving ``with``. What was settled before can be had ever after. Only a call that is
``reinterpreted`` at its end may have something else than it had; as soon as a text shows that it
may not be meant as it stands, nothing of it is settled any more.

If the provider reports an error, or hangs up, ``live_calls()`` raises ``StreamFailure`` after the
last call. If the source itself fails, whoever misses something because of that is told by the
source's exception, unchanged.

Whoever loops over the events gets all of them, readers or not: ``events.live_call(call_id)`` gives
a reader there, and what is fetched for it is kept for the loop. All of this in one thread, or in
one event loop.
"""

from argstream.readers.call_reader import AsyncCallReader, CallReader

__all__ = ["AsyncCallReader", "CallReader"]
