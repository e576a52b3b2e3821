"""Units as types, so that a signature says what a number means.

`Seconds` is an alias because plain literals are passed everywhere; `Bytes` and `MilliCPU` are distinct
types, since mixing them up is an expensive mistake.
"""

from typing import NewType, TypeAlias

Seconds: TypeAlias = float
Bytes = NewType("Bytes", int)
MilliCPU = NewType("MilliCPU", int)

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
