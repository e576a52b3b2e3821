"""The foundation of all other packages: errors, clock, back-off, blocking calls, subprocesses, safe paths, logging.

It imports no other package of the project and knows nothing of Kubernetes. Import its modules
(`pykubelet.base.errors`), not the package: the package stays empty so that pure modules never import modules with
side effects by accident. Start reading at `errors.py`, `clock.py`, `blocking.py` (threads), `guard.py` (loops) and
`safe_path.py`.
"""
