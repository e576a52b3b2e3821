"""The foundation of all other packages: errors, units, clock, back-off, subprocesses, and six packages.

``concurrency`` has blocking calls, guards of loops and supervision; ``files`` safe paths and atomic replacement;
``http`` what aiohttp lacks, beside ``spdy``; ``daemon`` the log, the event loop, signals and the shutdown of a process;
``tracing`` spans. It imports no other package of the project and knows no object of Kubernetes. Import its modules
(`pykubelet.base.errors`), not the package: the packages stay empty so that pure modules never import modules with
side effects by accident. Start reading at `errors.py`, `clock.py`, `concurrency/blocking.py` (threads),
`concurrency/guard.py` (loops) and `files/safe_path.py`.
"""
