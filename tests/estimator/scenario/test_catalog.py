"""The catalogue: every entry loads, every number has a source, peaks are dense, names that people use resolve."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from estimator.scenario import catalog
from estimator.scenario.hardware import PEAK_FIELD, Chip
from estimator.scenario.problems import LISTED, InputProblems

KINDS = ("models", "chips", "links")
FILES = [path for kind in KINDS for path in sorted((catalog.ROOT / kind).glob("*.toml"))]
CHIPS = [entry for entry in catalog.entries("chips") if (catalog.ROOT / "chips" / f"{entry.key}.toml").exists()]

CONTRACT = {
    "chips": "v100-32gb a100-40gb-sxm a100-80gb-sxm a100-80gb-pcie h100-sxm h100-pcie h200-sxm b200 gb200 b300 gb300 "
    "mi300x rtx-4090 tpu-v5p",
    "models": "cs336-small cs336-medium cs336-large cs336-xl cs336-2.7b gpt2 gpt2-medium gpt2-large gpt2-xl gpt3-175b "
    "megatron-22b megatron-175b megatron-530b megatron-1t mpt-125m mpt-350m mpt-760m mpt-1b mpt-3b mpt-7b mpt-13b "
    "mpt-30b mpt-70b tinyllama-1.1b llama2-7b llama2-13b llama2-70b llama3.2-1b llama3-8b llama3-70b llama3-405b "
    "qwen3-0.6b qwen3-1.7b qwen3-4b qwen3-8b qwen3-14b qwen3-32b qwen3-30b-a3b qwen3-235b-a22b mixtral-8x7b "
    "mixtral-8x22b deepseek-v2 deepseek-v3 gpt-oss-20b gpt-oss-120b kimi-k2 grok-1 nemotron4-15b nemotron4-340b",
}

HARDWARE_NAMES = {
    # Names as published tables of measured runs write them.
    "A100": "a100-80gb-sxm",
    "A100 (DGX)": "a100-80gb-sxm",
    "A100-40GB": "a100-40gb-sxm",
    "A100-80GB": "a100-80gb-sxm",
    "A100-80GB SXM (Selene DGX A100)": "a100-80gb-sxm",
    "A100-80GB SXM4": "a100-80gb-sxm",
    "A100-PCIe-80GB": "a100-80gb-pcie",
    "B200": "b200",
    "B200-SXM": "b200",
    "B300": "b300",
    "GB200": "gb200",
    "GB300": "gb300",
    "H100": "h100-sxm",
    "H100-80GB": "h100-sxm",
    "H100-80GB (DGX H100)": "h100-sxm",
    "H100-80GB (DGX/HGX)": "h100-sxm",
    "H100-80GB HBM3": "h100-sxm",
    "H100-80GB SXM5": "h100-sxm",
    "H200-SXM": "h200-sxm",
    "NVIDIA A100 SXM": "a100-80gb-sxm",
    "NVIDIA B200 SXM": "b200",
    "NVIDIA H100 SXM": "h100-sxm",
    "RTX 4090 24GB": "rtx-4090",
    "RTX A6000 48GB": "rtx-a6000",
    "RTX 3090": "rtx-3090",
    "RTX 5090": "rtx-5090",
    "RTX 6000 Ada": "rtx-6000-ada",
    "A40": "a40",
    "L40": "l40",
    "L40S": "l40s",
    "A10": "a10",
    "A10G": "a10g",
    "GH200": "gh200",
    "V100-SXM2-16GB": "v100-16gb",
    # Names as torch.cuda.get_device_name gives them.
    "AMD Instinct MI300X": "mi300x",
    "AMD Instinct MI100": "mi100",
    "AMD Instinct MI210": "mi210",
    "AMD Instinct MI250": "mi250",
    "AMD Instinct MI350X": "mi350x",
    "AMD Instinct MI355X": "mi355x",
    "NVIDIA L4": "l4",
    "Tesla T4": "t4",
    "Tesla P4": "p4",
    "Tesla P100-PCIE-16GB": "p100-pcie",
    "Tesla V100-PCIE-32GB": "v100-32gb-pcie",
    "TPU v6e": "tpu-v6e",
    "TPU7x": "tpu7x",
    "NVIDIA A100 80GB PCIe": "a100-80gb-pcie",
    "NVIDIA A100-PCIE-40GB": "a100-40gb-pcie",
    "NVIDIA A100-SXM4-40GB": "a100-40gb-sxm",
    "NVIDIA A100-SXM4-80GB": "a100-80gb-sxm",
    "NVIDIA B200": "b200",
    "NVIDIA B300 SXM6 AC": "b300",
    "NVIDIA GB200": "gb200",
    "NVIDIA GB300": "gb300",
    "NVIDIA GeForce RTX 4090": "rtx-4090",
    "NVIDIA GeForce RTX 3090": "rtx-3090",
    "NVIDIA RTX 6000 Ada Generation": "rtx-6000-ada",
    "NVIDIA L40S": "l40s",
    "NVIDIA A10G": "a10g",
    "NVIDIA GH200 480GB": "gh200",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA H100 PCIe": "h100-pcie",
    "NVIDIA H200": "h200-sxm",
    "Tesla V100-SXM2-32GB": "v100-32gb",
    "TPU v5p": "tpu-v5p",
    "TPU v5e": "tpu-v5e",
    "TPU v5 lite": "tpu-v5e",
}

MODEL_NAMES = {
    "GPT-175B": "megatron-175b",
    "GPT-22B": "megatron-22b",
    "GPT-3 175B": "gpt3-175b",
    "GPT3-175B": "gpt3-175b",
    "LLAMA2-7B": "llama2-7b",
    "LLAMA3-8B": "llama3-8b",
    "Llama3.1-70B": "llama3-70b",
    "Llama3.1-8B": "llama3-8b",
    "MPT-30b": "mpt-30b",
    "openai-community/gpt2-xl": "gpt2-xl",
    "Qwen/Qwen3-8B": "qwen3-8b",
    "GPT-145B": "megatron-145b",
    "GPT-OSS-120B": "gpt-oss-120b",
    "Mixtral-8x7B": "mixtral-8x7b",
    "Nemotron4-15B": "nemotron4-15b",
    "Qwen3-30B-A3B": "qwen3-30b-a3b",
    "DeepSeek-V3": "deepseek-v3",
}

SPARSE_HALF_PRECISION = {
    142e12,
    250e12,
    299.4e12,
    362.1e12,
    728.5e12,
    733e12,
    838e12,
    309.7e12,
    330.3e12,
    330.4e12,
    624e12,
    1513e12,
    1671e12,
    1978.9e12,
    1979e12,
    2614.9e12,
    4.5e15,
    5e15,
}
SPARSE_FLOPS_PER_S = {
    # What data sheets print "with sparsity"; a dense peak that equals one of these was copied from the wrong row.
    "tf32_flops_per_s": {
        71e12,
        125e12,
        149.6e12,
        181e12,
        366e12,
        154.8e12,
        165.2e12,
        312e12,
        756e12,
        835e12,
        989e12,
        989.4e12,
        1307.4e12,
        2.2e15,
        2.25e15,
        2.5e15,
    },
    "fp16_flops_per_s": SPARSE_HALF_PRECISION,
    "bf16_flops_per_s": SPARSE_HALF_PRECISION,
    "fp8_flops_per_s": {
        724e12,
        1457e12,
        1466e12,
        1676e12,
        660.6e12,
        1321.2e12,
        3026e12,
        3341e12,
        3957.8e12,
        3958e12,
        5229.8e12,
        9e15,
        10e15,
    },
    "fp4_flops_per_s": {18e15, 20e15},
}

BF16_AT_HALF_RATE = ("mi100",)
"""AMD CDNA multiplies bf16 at half the rate of fp16; all later ones at the same."""

DENSE_BF16_FLOPS_PER_S = {
    "a100-40gb-sxm": 312e12,
    "a100-80gb-sxm": 312e12,
    "a100-80gb-pcie": 312e12,
    "h100-sxm": 989.4e12,
    "h100-pcie": 756e12,
    "h200-sxm": 989.4e12,
    "b200": 2250e12,
    "gb200": 2500e12,
    "mi100": 92.3e12,
    "mi210": 181e12,
    "mi300x": 1307.4e12,
    "mi350x": 2306.9e12,
    "mi355x": 2516.6e12,
    "l4": 121e12,
    "t4": 0.0,
    "p100-pcie": 0.0,
    "tpu-v6e": 918e12,
    "tpu7x": 2307e12,
    "rtx-4090": 165.2e12,
    "rtx-3090": 71e12,
    "rtx-5090": 209.5e12,
    "rtx-6000-ada": 364.2e12,
    "a10": 125e12,
    "a10g": 70e12,
    "a40": 149.7e12,
    "l40": 181.05e12,
    "l40s": 362.05e12,
    "gh200": 989.4e12,
    "tpu-v5p": 459e12,
    "tpu-v5e": 197e12,
    "v100-32gb": 0.0,
}


@pytest.mark.parametrize("kind", sorted(CONTRACT))
def test_every_name_of_the_contract_is_there(kind: str):
    keys = {path.stem for path in (catalog.ROOT / kind).glob("*.toml")}
    assert set(CONTRACT[kind].split()) <= keys


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_number_has_a_source(path: Path):
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    sources = document.pop("sources")
    numbers = {key for key, value in document.items() if type(value) in (int, float)}
    assert numbers, "a file without numbers describes nothing"
    assert numbers <= set(sources)
    assert set(sources) <= set(document), "a source for a field that the file does not set"
    short = {key: text for key, text in sources.items() if len(text) < 20}
    assert not short, "name the document and the place in it"


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_file_has_a_label_and_loads_under_its_name(path: Path):
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    (entry,) = [entry for entry in catalog.entries(path.parent.name) if entry.key == path.stem]
    assert entry.label == document["label"]
    assert entry.value.name == path.stem


@pytest.mark.parametrize("kind", KINDS)
def test_names_and_aliases_are_unique_and_resolve(kind: str):
    find = {"models": catalog.model, "chips": catalog.chip, "links": catalog.link}[kind]
    owner: dict[str, str] = {}
    for entry in catalog.entries(kind):
        plain = [catalog._plain(name) for name in (entry.key, *entry.aliases)]
        assert len(plain) == len(set(plain)), f"{entry.key} lists a name twice: {sorted(plain)}"
        for name in (entry.key, *entry.aliases):
            assert owner.setdefault(catalog._plain(name), entry.key) == entry.key
            assert find(name) is entry.value


@pytest.mark.parametrize(("name", "key"), HARDWARE_NAMES.items())
def test_hardware_names_of_published_tables_and_drivers_resolve(name: str, key: str):
    assert catalog.chip(name).name == key
    assert catalog.chip(name.upper()).name == key


@pytest.mark.parametrize(("name", "key"), MODEL_NAMES.items())
def test_model_names_of_published_tables_resolve(name: str, key: str):
    assert catalog.model(name).name == key


def test_an_unknown_name_is_a_problem_that_suggests_the_nearest():
    with pytest.raises(InputProblems) as caught:
        catalog.chip("a100-80gb-sxn")
    (problem,) = caught.value.problems
    assert problem.field == "cluster.chip"
    assert "a100-80gb-sxm" in problem.remedy


def test_a_long_name_is_repeated_in_part():
    with pytest.raises(InputProblems) as caught:
        catalog.model("gpt" * 100_000)
    assert len(str(caught.value)) < 300


def test_a_name_that_is_near_none_is_told_where_they_are_listed():
    with pytest.raises(InputProblems) as caught:
        catalog.model("!")
    (problem,) = caught.value.problems
    assert problem.remedy == f"Choose one of its {len(catalog.entries('models'))}; headroom catalog models lists them."
    assert problem.remedy_kind == LISTED


def test_a_cpu_that_was_not_measured_is_no_misspelling(monkeypatch):
    monkeypatch.setattr(catalog, "_by_alias", lambda kind: {})
    with pytest.raises(InputProblems) as caught:
        catalog.chip("CPU")
    assert "python -m runners probe" in caught.value.problems[0].remedy


@pytest.mark.parametrize("entry", catalog.entries("models"), ids=lambda entry: entry.key)
def test_every_model_is_possible(entry: catalog.CatalogEntry):
    assert entry.value.problems() == []


@pytest.mark.parametrize("entry", CHIPS, ids=lambda entry: entry.key)
def test_peaks_rise_as_precision_falls_and_are_never_the_sparse_ones(entry: catalog.CatalogEntry):
    chip: Chip = entry.value
    own = chip.name in BF16_AT_HALF_RATE
    fields = [field for field in dict.fromkeys(PEAK_FIELD.values()) if not (own and field == "fp16_flops_per_s")]
    present = [peak for field in fields if (peak := getattr(chip, field))]
    assert present == sorted(present)
    assert chip.fp32_matrix_flops_per_s == 0 or chip.fp32_flops_per_s <= chip.fp32_matrix_flops_per_s
    if chip.bf16_flops_per_s and chip.fp16_flops_per_s and not own:
        assert chip.fp16_flops_per_s == chip.bf16_flops_per_s, "both accumulate in fp32"
    for field, sparse in SPARSE_FLOPS_PER_S.items():
        assert getattr(chip, field) not in sparse


@pytest.mark.parametrize(("name", "peak"), DENSE_BF16_FLOPS_PER_S.items())
def test_dense_bf16_peaks(name: str, peak: float):
    assert catalog.chip(name).bf16_flops_per_s == peak


@pytest.mark.parametrize("entry", CHIPS, ids=lambda entry: entry.key)
def test_every_chip_names_links_that_exist_and_has_plausible_sizes(entry: catalog.CatalogEntry):
    chip: Chip = entry.value
    link, network = catalog.link(chip.link), catalog.link(chip.network)
    assert link.bytes_per_s >= network.bytes_per_s or chip.link.startswith("pcie")
    assert link.bytes_per_s < chip.memory_bytes_per_s
    assert 8e9 < chip.memory_bytes < 1e12
    assert chip.l2_bytes < chip.memory_bytes / 50
    assert 0.5e9 < chip.clock_hz < 4e9


FP16_FLOPS_PER_UNIT_CYCLE = {"a30": 2048, "a800-80gb-sxm": 2048, "a800-80gb-pcie": 2048}
LANES = {"a30": 64, "a800-80gb-sxm": 64, "a800-80gb-pcie": 64, "h20": 128, "h100-nvl": 128, "h100-sxm": 128, "a10": 128,
         "rtx-3090": 128, "rtx-5090": 128, "rtx-6000-ada": 128, "gh200": 128, "a10g": 128}  # fmt: skip


@pytest.mark.parametrize(("name", "lanes"), LANES.items())
def test_peaks_are_units_times_multiply_adds_times_clock(name: str, lanes: int):
    chip = catalog.chip(name)
    cycles = chip.compute_units * chip.clock_hz
    assert chip.fp32_flops_per_s == pytest.approx(2 * lanes * cycles, rel=0.01)
    if name in FP16_FLOPS_PER_UNIT_CYCLE:
        assert chip.bf16_flops_per_s == pytest.approx(FP16_FLOPS_PER_UNIT_CYCLE[name] * cycles, rel=0.01)
