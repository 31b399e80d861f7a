"""One router per resource; ``ROUTERS`` names them in the order of the contract."""

from app.api import catalog, compare, estimate, health, measurements, runs, sweep, uploads

ROUTERS = tuple(module.router for module in (estimate, sweep, catalog, runs, uploads, measurements, compare, health))
