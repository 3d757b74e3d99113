"""What kept state survives: the choice that brokers and scenarios have.

It stands apart from the storage, so that settings can be read where no broker can run.
"""

from __future__ import annotations

from typing import Annotated, Literal

from byway.model.options import option

Durability = Literal["process", "power"]
DurabilityOption = Annotated[
    Durability, option("What kept state survives: the end of the process, or a loss of power too.")
]
