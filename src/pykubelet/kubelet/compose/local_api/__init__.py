"""What the local API shows of the other stages, and what its clients may request of them.

Start reading in ``agent_view.py``; ``build.py`` composes it. Imports beside it: ``node``.
"""
