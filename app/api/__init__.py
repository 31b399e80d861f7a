"""One router per resource; ``ROUTERS`` names them in the order of the contract."""

from app.api import (
    catalog,
    compare,
    estimate,
    health,
    hierarchy,
    layers,
    measurements,
    models,
    parallelism,
    pathfinding,
    runs,
    studies,
    sweep,
    uploads,
)

ROUTERS = tuple(
    module.router
    for module in (
        estimate,
        hierarchy,
        layers,
        sweep,
        catalog,
        models,
        runs,
        uploads,
        measurements,
        compare,
        studies,
        pathfinding,
        parallelism,
        health,
    )
)
