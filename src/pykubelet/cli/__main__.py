"""Entry point of ``python -m pykubelet.cli``."""

from pykubelet.cli.app import main

main()
