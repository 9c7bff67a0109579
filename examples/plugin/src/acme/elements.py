"""An element type: an 8-bit float.

tessella imports this module to complete its table of elements, so the module imports nothing else
of tessella.
"""

from __future__ import annotations

from tessella.support.elements import Element

F8E3M4 = Element(
    "f8E3M4", 8, "float", "uint8", "i8", "float8_e3m4", exponent=3, narrow=True, is_native=False
)
"""A float of 8 bits with 4 bits of mantissa, for numbers up to 15.5. `ml_dtypes` has a dtype for
it."""
