"""Benchmarks by name, imported when used: ``run`` of ``step`` gives a Measurement, that of ``probe`` writes a chip."""

MODULES = {"step": "runners.benchmarks.step", "probe": "runners.benchmarks.probes"}
