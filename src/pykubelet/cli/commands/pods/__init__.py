"""Commands that show pods, act in their containers, or start them again.

Imports no package beside it.
"""
