"""What the system tells of this CPU."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runners import processor
from runners.processor import (
    clocks_now_hz,
    cpu_cache_bytes,
    cpu_clock_hz,
    cpu_cores,
    cpu_memory_bytes,
    cpu_name,
    cpus_available,
)


def test_this_cpu_has_a_name_cores_memory_and_a_clock():
    assert cpu_name()
    assert 1 <= cpu_cores() <= (os.cpu_count() or 1)
    assert 1e8 < cpu_memory_bytes() < 1e15
    assert 1e8 <= cpu_clock_hz() < 1e10
    assert cpu_cache_bytes() >= 0


def test_the_last_level_is_the_largest_cache_whatever_cpuinfo_names(monkeypatch, tmp_path):
    monkeypatch.setattr(processor, "CACHES", tmp_path)
    monkeypatch.setattr(processor, "cpu_info", lambda wanted: ["1024 KB"] if wanted == "cache size" else [])
    assert cpu_cache_bytes() == 2**20
    for level, size in enumerate(("32K", "32K", "1024K", "32768K")):
        (tmp_path / f"index{level}").mkdir()
        (tmp_path / f"index{level}" / "size").write_text(f"{size}\n")
    assert cpu_cache_bytes() == 2**25


def test_a_control_groups_limit_counts_where_it_is_lower(monkeypatch, tmp_path):
    whole = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(processor, "_LIMITS", (str(limit),))
    for text, expected in (("1048576\n", 1048576.0), ("max\n", whole), (f"{int(whole) * 2}", whole)):
        limit.write_text(text)
        assert cpu_memory_bytes() == expected


@pytest.mark.parametrize(("told", "expected"), [("max 100000", 4.0), ("150000 100000", 1.5), ("", 4.0), ("8 0", 4.0)])
def test_a_quota_counts_where_it_is_lower_than_the_processors(told, expected, monkeypatch, tmp_path):
    quota = tmp_path / "cpu.max"
    quota.write_text(f"{told}\n")
    monkeypatch.setattr(processor, "_QUOTA", str(quota))
    monkeypatch.setattr(processor, "cpu_cores", lambda: 4)
    assert cpus_available() == expected


def test_a_system_that_tells_nothing_has_a_clock_of_1_ghz_and_no_cache(monkeypatch):
    monkeypatch.setattr(processor, "cpu_info", lambda _wanted: [])
    monkeypatch.setattr(processor, "_number", lambda _path: None)
    monkeypatch.setattr(processor, "CACHES", Path("/nowhere"))
    assert cpu_clock_hz() == 1e9
    assert clocks_now_hz() == []
    assert cpu_cache_bytes() == 0
