"""The image policy: which images may be pulled and used, and whose signatures they need.

Imports of the server: ``images``. The rules are pure (``plan``); start reading at ``trust.py``, which applies them to a
pull and to an image that is about to be used, then ``plan/claims.py`` (what a signature says) and ``keys.py``.
"""

from pykubelet.criserver.images.signatures.keys import Key, load_key
from pykubelet.criserver.images.signatures.plan.policy import Action, Rule, allow_all, longest_scope
from pykubelet.criserver.images.signatures.trust import Candidate, Trust

__all__ = ["Action", "Candidate", "Key", "Rule", "Trust", "allow_all", "load_key", "longest_scope"]
