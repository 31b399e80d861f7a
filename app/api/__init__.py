"""One router per resource; ``ROUTERS`` names them in the order of the contract."""

from app.api import (
    accuracy,
    benchmarks,
    calibrations,
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
    remedies,
    runs,
    said,
    studies,
    sweep,
    this_cpu,
    timeline,
    traces,
    uploads,
)

ROUTERS = tuple(
    module.router
    for module in (
        estimate,
        hierarchy,
        layers,
        timeline,
        sweep,
        remedies,
        catalog,
        models,
        benchmarks,
        runs,
        uploads,
        traces,
        measurements,
        said,
        calibrations,
        compare,
        studies,
        accuracy,
        pathfinding,
        parallelism,
        this_cpu,
        health,
    )
)
