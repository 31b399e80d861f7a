from __future__ import annotations

import pytest

from app.importers.text.layout.lines import heading, is_fence, is_label, is_noise, is_rule


def test_headings():
    assert heading("## Benchmark DDP") == (2, "Benchmark DDP")
    assert heading("# Profile ") == (1, "Profile")
    assert heading("(a)") == (7, "(a)")
    assert heading("a)") == (7, "(a)")
    assert heading("#no") is None
    assert heading("(see above)") is None
    assert heading("text") is None


@pytest.mark.parametrize("line", ["====", "-----  ------", "|:---|---:|", "────", "┌──┬──┐", "├──┼──┤"])
def test_rules(line):
    assert is_rule(line)


@pytest.mark.parametrize("line", ["--", "a ----", "", ":::"])
def test_no_rules(line):
    assert not is_rule(line)


@pytest.mark.parametrize("line", ["user@host:~/x$ srun nsys", "[WARNING] few GPUs", "WARNING: slow", "$ make"])
def test_noise(line):
    assert is_noise(line)


def test_labels_and_fences():
    assert is_label("not compiled")
    assert is_label("BF16")
    assert not is_label("compiled is faster but not enough.")
    assert not is_label("d_model = 16:")
    assert is_fence("```bash")
    assert not is_noise("Backend: NCCL")
