"""Fuzzing and model-based tests: what a client, file, registry or peer sends is arbitrary, and a property holds.

With the tests each has a small budget (hypothesis's default); ``make fuzz MINUTES=n`` runs them until the time is over,
each round with more examples and a seed of its own (``tools/fuzz.py``).
"""
