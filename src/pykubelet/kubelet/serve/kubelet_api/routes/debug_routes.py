"""Routes below ``/debug``: stack dumps and the log level.

Most profiles of the Go kubelet are specific to Go. The ones with a meaning here are served: ``goroutine`` (the stacks
of all threads and tasks) and ``cmdline``.
"""

import asyncio
import io
import logging
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Sequence
from typing import Final

from aiohttp import web

from pykubelet.base.concurrency.tasks import yielding_to_loop
from pykubelet.base.errors import NotFound
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_interfaces import KubeletApiServerConfig
from pykubelet.kubelet.serve.kubelet_api.routes.disabled import disabled_handler

_PROFILES: Final = {"goroutine": "the stacks of all threads and tasks", "cmdline": "the command line"}
_DEBUG_FROM: Final = 4
"""From this verbosity on the Go kubelet logs single steps."""
_DIGITS: Final = 9
_SHOWN: Final = 100


class DebugRoutes:
    """Handlers below ``/debug``."""

    def __init__(self, config: KubeletApiServerConfig) -> None:
        self._config = config

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the routes; those that the configuration disables answer 405 with the reason."""
        config = self._config
        profiles = self._profile if config.profiling_handler else disabled_handler("profiling endpoint is disabled.")
        verbosity = self._verbosity if config.debug_flags_handler else disabled_handler("flags endpoint is disabled.")
        return [
            web.get("/debug/pprof/{name:.*}", profiles),
            web.route("*", "/debug/flags/v", verbosity),
        ]

    async def _profile(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        match name:
            case "":
                return web.Response(text="".join(f"{each}: {text}\n" for each, text in _PROFILES.items()))
            case "goroutine":
                return web.Response(text="\n".join([text async for text in _stacks()]))
            case "cmdline":
                return web.Response(text="\0".join(sys.orig_argv))
            case _:
                raise NotFound(
                    f"there is no profile {name!r} of a program in Python; there are: {', '.join(_PROFILES)}"
                )

    async def _verbosity(self, request: web.Request) -> web.StreamResponse:
        """Set the log level by the Go kubelet's verbosity numbers: 4 and more is debug."""
        if request.method != "PUT":
            return web.Response(status=406, text="unsupported http method")
        # Read as bytes: the client chooses the charset, so the body may not be decodable text.
        text = (await request.read())[:_SHOWN].decode("ascii", "backslashreplace").strip()
        if not text.isdecimal() or len(text) > _DIGITS:
            return web.Response(status=400, text=f"failed set klog.logging.verbosity {text}: it is no number")
        logging.getLogger().setLevel(logging.DEBUG if int(text) >= _DEBUG_FROM else logging.INFO)
        return web.Response(text=f"successfully set klog.logging.verbosity to {text}")


async def _stacks() -> AsyncIterator[str]:
    """The stacks, one by one: there may be thousands of tasks, and each takes a millisecond."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for number, frame in sys._current_frames().items():
        yield f"thread {names.get(number, number)}:\n{''.join(traceback.format_stack(frame))}"
    async for task in yielding_to_loop(sorted(asyncio.all_tasks(), key=lambda each: each.get_name())):
        yield f"task {task.get_name()}:\n{_stack(task)}"


def _stack(task: "asyncio.Task[object]") -> str:
    text = io.StringIO()
    try:
        task.print_stack(file=text)
    except TypeError:
        # Coroutines of compiled modules (grpc's) have no Python frames to show.
        return f"  {task.get_coro()!r}\n"
    return text.getvalue()
