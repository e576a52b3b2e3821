"""What every other package stands on: errors, clock, back-off, subprocesses, safe paths, logging.

Nothing here knows Kubernetes. Import the modules (`pykubelet.base.errors`), not this package:
it stays empty so that pure modules never pull in effects by accident.
"""
