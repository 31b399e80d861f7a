"""Accuracy: how right predictions were of every set of measured steps, as committed."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from app.api.body import json_response
from app.api.documented import documented
from estimator.validation.accuracy import Accuracy, accuracy

router = APIRouter()


@router.get("/api/accuracy")
@documented({200: Accuracy})
def get_accuracy() -> Response:
    """Errors and coverage of every set, by chip, model, kind of step and what takes most; points where bundled."""
    return json_response(accuracy())
