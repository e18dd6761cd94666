"""The order in which ``--explain`` lists nodes."""

from typing import Literal

Order = Literal["cost", "network"]
"""By falling cost, or as in the model."""
