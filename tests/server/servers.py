"""Any ASGI app served by plain uvicorn, as an app of somebody else is that ours is inside of."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

__all__ = ["serving"]


@contextmanager
def serving(app: Any, **settings: Any) -> Iterator[str]:
    """Serve an app with uvicorn in a thread, and give its address."""
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_level="warning", lifespan="on", **settings
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            deadline = time.monotonic() + 10
            while not server.started:
                if not thread.is_alive() or time.monotonic() > deadline:
                    raise AssertionError("the server does not start")
                time.sleep(0.005)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(5)
            server.force_exit = True  # for those who left a stream open
            thread.join(5)
            if thread.is_alive():
                raise AssertionError("the server does not end")
