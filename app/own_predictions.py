"""Own predictions: what the ops of a stored profile or traced program should take, made once for all who ask."""

from __future__ import annotations

from functools import lru_cache

from app.store import Store
from estimator.cost.efficiency import Calibrated
from estimator.estimate.expected import Expected, own_prediction
from estimator.scenario import catalog

MOST_KEPT = 16
"""A page shows two; each is of some hundred kilobytes, and takes up to half a second of a long list."""


def own_prediction_of(measurement_id: str, store: Store, calibration: Calibrated | None) -> Expected | None:
    """What its own ops should take; None where it has no op list, or the chip that it ran on is not known."""
    return kept_prediction(measurement_id, store, calibration, catalog.revision())


@lru_cache(maxsize=MOST_KEPT)
def kept_prediction(
    measurement_id: str, store: Store, calibration: Calibrated | None, revision: int
) -> Expected | None:
    """Kept as long as the catalogue is what it was at this ``revision``; the list of an id never changes."""
    ops = store.op_list(measurement_id)
    return None if ops is None else own_prediction(ops, calibration)
