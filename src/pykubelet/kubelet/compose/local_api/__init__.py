"""The local API's view of the other stages, and the requests that its clients may make of them.

Start reading in ``agent_view.py``; ``build.py`` composes it. Imports beside it: ``node``.
"""
