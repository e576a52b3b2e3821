"""Authentication and authorization of every request of the kubelet API server.

Start reading in ``access_middleware.py``, which asks ``authentication.py`` for the user and ``authorization.py`` for
the user's rights; ``ttlcache.py`` keeps the API server's answers, ``token_review_budget.py`` limits how often it is
asked. Imports beside it: ``plan``.
"""
