"""Access check: every request is authenticated and authorized before its handler runs.

The route is matched once, before this check. The attributes to authorize are derived from that match, so the request
that is authorized is the one that is served. Paths that are not in normal form have been refused already
(``serve/common/plan/request_target.py``).
"""

import logging

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from pykubelet.base.errors import PykubeletError
from pykubelet.kubelet.serve.common.responses import matched_pattern
from pykubelet.kubelet.serve.common.serving import MarkTrusted
from pykubelet.kubelet.serve.common.slots import USER
from pykubelet.kubelet.serve.kubelet_api.access.authentication import Authenticator
from pykubelet.kubelet.serve.kubelet_api.access.authorization import Authorizer
from pykubelet.kubelet.serve.kubelet_api.access.token_review_budget import Overloaded
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_types import ANONYMOUS, RequestAttributes, User
from pykubelet.kubelet.serve.kubelet_api.plan.attributes import request_attributes

_log = logging.getLogger(__name__)


def access_middleware(authenticator: Authenticator, authorizer: Authorizer, mark_trusted: MarkTrusted) -> Middleware:
    """Return a middleware that passes on authorized requests; others get 401, 403 or 500 in plain text.

    ``mark_trusted`` is called for each authorized request of an authenticated user.
    """

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        # Where no route matches, the answer is 404 or 405 and the path itself gives the attributes.
        wanted = request_attributes(request.method, matched_pattern(request) or request.path)
        try:
            user = await authenticator.authenticate(request)
        except Overloaded:
            raise
        except PykubeletError as error:  # 401, as upstream: the client is unknown, whatever the reason
            _log.warning("authentication failed", extra={"path": request.path, "error": str(error)})
            user = None
        if user is None:
            return web.Response(status=401, text="Unauthorized")
        try:
            allowed = await authorizer.allowed(user, wanted)
        except PykubeletError as error:
            _log.warning("access check failed", extra={"path": request.path, "error": str(error)})
            return web.Response(status=500, text=f"Authorization error: {error}")
        if not allowed:
            _log.info("request forbidden", extra={"user": user.name, "verb": wanted.verb, "path": request.path})
            return web.Response(status=403, text=_forbidden(user, wanted))
        if user.name != ANONYMOUS:
            mark_trusted(request)
            request[USER] = user.name
        return await handler(request)

    return middleware


def _forbidden(user: User, wanted: RequestAttributes) -> str:
    listed = " ".join(wanted.subresources)
    return f"Forbidden (user={user.name}, verb={wanted.verb}, resource=nodes, subresource(s)=[{listed}])\n"
