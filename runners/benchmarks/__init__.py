"""Benchmarks by name: each module has ``run(...) -> Measurement`` or writes its own document; imported when used."""

MODULES = {"step": "runners.benchmarks.step", "probe": "runners.benchmarks.probes"}
