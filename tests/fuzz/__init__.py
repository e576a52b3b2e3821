"""Fuzz tests and model-based tests: a client, file, registry or peer sends arbitrary input, and a property must hold.

In the normal suites each test has a small budget (hypothesis's default); ``make fuzz MINUTES=n`` repeats them until the
time is over, each round with more examples and a new seed (``tools/fuzz.py``).
"""
