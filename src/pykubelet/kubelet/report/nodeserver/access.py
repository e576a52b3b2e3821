"""The door: every request is authenticated and authorized before anything else looks at it."""

import logging

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from pykubelet.base.errors import PykubeletError
from pykubelet.kubelet.report.nodeserver.authn import Authenticator
from pykubelet.kubelet.report.nodeserver.authz import Authorizer
from pykubelet.kubelet.report.nodeserver.decide_attributes import request_attributes
from pykubelet.kubelet.report.nodeserver.types import Attributes, User

_log = logging.getLogger(__name__)


def guarded(authenticator: Authenticator, authorizer: Authorizer) -> Middleware:
    """A middleware that lets through whom both let through; the others get 401, 403 or 500 in plain text."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        # The path in the form that the routes are matched with.
        wanted = request_attributes(request.method, request.rel_url.raw_path)
        try:
            user = await authenticator.authenticate(request)
            if user is None:
                return web.Response(status=401, text="Unauthorized")
            allowed = await authorizer.allowed(user, wanted)
        except PykubeletError as error:
            _log.warning("access not decided", extra={"path": request.path, "error": str(error)})
            return web.Response(status=500, text=f"Authorization error: {error}")
        if not allowed:
            _log.info("request refused", extra={"user": user.name, "verb": wanted.verb, "path": request.path})
            return web.Response(status=403, text=_forbidden(user, wanted))
        return await handler(request)

    return middleware


def _forbidden(user: User, wanted: Attributes) -> str:
    listed = " ".join(wanted.subresources)
    return f"Forbidden (user={user.name}, verb={wanted.verb}, resource=nodes, subresource(s)=[{listed}])\n"
