"""Files that may be damaged, hostile or read while they are written, and what they contain.

Start reading in ``safe_path.py`` (paths that a pod controls), then ``atomic.py`` (replacement), ``state_files.py`` (the
agent's own state), ``documents.py`` (untrusted YAML and JSON) and ``decoding.py`` (typed objects). Imports beside it:
``concurrency``.
"""
