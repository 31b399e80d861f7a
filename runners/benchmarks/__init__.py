"""Benchmarks by name, imported when used: ``run`` of each gives a Measurement, that of ``probe`` writes a chip."""

MODULES = {
    "step": "runners.benchmarks.step",
    "attention": "runners.benchmarks.attention",
    "collectives": "runners.benchmarks.collectives",
    "ddp": "runners.benchmarks.ddp",
    "ulysses": "runners.benchmarks.ulysses",
    "memory": "runners.benchmarks.memory",
    "precision": "runners.benchmarks.precision",
    "probes": "runners.benchmarks.probes",
    "probe": "runners.benchmarks.chip",
}
