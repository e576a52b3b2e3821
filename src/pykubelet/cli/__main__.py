"""Entry point of ``python -m pykubelet.cli``."""

from pykubelet.cli.entry import main

main()
