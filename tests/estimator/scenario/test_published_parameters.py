"""Parameters of the catalogue's models: all, active ones and those of the embedding, as their authors print them."""

from __future__ import annotations

import pytest

from estimator.scenario import catalog
from estimator.scenario.parameters import active_parameters, embedding_parameters, head_parameters, parameters

PUBLISHED_PARAMETERS = {
    # Stanford CS336 (2025), assignment 2: counts of the reference implementation.
    "cs336-small": 128_625_408,
    "cs336-medium": 423_183_360,
    "cs336-large": 969_411_840,
    "cs336-xl": 1_998_235_200,
    "cs336-2.7b": 3_406_809_600,
    # Checkpoints on the Hugging Face hub: total of the safetensors index, tied heads counted once.
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "tinyllama-1.1b": 1_100_048_384,
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3.2-1b": 1_235_814_400,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3-405b": 405_853_388_800,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_620_634_112,
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v2": 235_741_434_880,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    # The index's 671 026 419 200 less 58 · 256 biases of the choice of experts, which no gradient trains.
    "deepseek-v3": 671_026_404_352,
}

ACTIVE_PARAMETERS = {
    # Billions that a token meets as the model's card or report prints them, and how far the rounding may be off.
    "mixtral-8x7b": (12.9, 0.005),
    "mixtral-8x22b": (39.0, 0.005),
    "deepseek-v2": (21.0, 0.02),
    "deepseek-v3": (37.0, 0.016),
    "kimi-k2": (32.6, 0.01),
    "qwen3-30b-a3b": (3.3, 0.02),
    "qwen3-235b-a22b": (22.0, 0.01),
}

ACTIVE_WITHOUT_EMBEDDING = {
    # gpt-oss-120b & gpt-oss-20b Model Card (2025), table 1, whose active parameters leave the embedding out: billions.
    "gpt-oss-20b": 3.61,
    "gpt-oss-120b": 5.13,
}

NEMOTRON_PARAMETERS = {
    # arXiv 2402.16819 and 2406.11704, section 2: billions in embedding and head, and elsewhere.
    "nemotron4-15b": (3.2, 12.5),
    "nemotron4-340b": (9.4, 331.6),
}

MPT_PARAMETERS = [
    # mosaicml/llm-foundry, scripts/train/benchmarking/README.md (2024): model, sequence length, num_params.
    ("mpt-125m", 2048, 125_311_488),
    ("mpt-125m", 65536, 174_070_272),
    ("mpt-760m", 2048, 760_470_528),
    ("mpt-760m", 32768, 807_656_448),
    ("mpt-1b", 2048, 1_315_950_592),
    ("mpt-1b", 65536, 1_445_974_016),
    ("mpt-7b", 2048, 6_658_859_008),
    ("mpt-7b", 65536, 6_918_905_856),
    ("mpt-30b", 512, 29_964_204_032),
    ("mpt-30b", 2048, 29_975_214_080),
    ("mpt-30b", 8192, 30_019_254_272),
]

NOMINAL_PARAMETERS = {
    # Papers that print a rounded size: billions, and how far the rounding may be off.
    "gpt3-175b": (174.6, 0.001),
    "megatron-22b": (22.0, 0.01),
    "megatron-175b": (175.0, 0.01),
    "megatron-530b": (529.6, 0.001),
    "megatron-1t": (1008.0, 0.001),
    # Narayanan et al. (arXiv 2104.04473, 2021), table 1.
    "megatron-1.7b": (1.7, 0.03),
    "megatron-3.6b": (3.6, 0.02),
    "megatron-7.5b": (7.5, 0.01),
    "megatron-18b": (18.4, 0.005),
    "megatron-39b": (39.1, 0.001),
    "megatron-76b": (76.1, 0.001),
    "megatron-145b": (145.6, 0.001),
    "megatron-310b": (310.1, 0.001),
    # xai-org/grok-1, README.md (2024): 314B. Kimi K2 (arXiv 2507.20534, 2025), table 2: 1.04T.
    "grok-1": (314.0, 0.006),
    "kimi-k2": (1040.0, 0.015),
}


@pytest.mark.parametrize(("name", "count"), PUBLISHED_PARAMETERS.items())
def test_parameter_counts_are_the_published_ones(name: str, count: int):
    assert parameters(catalog.model(name)) == count


@pytest.mark.parametrize(("name", "seq_len", "count"), MPT_PARAMETERS)
def test_mpt_parameter_counts_follow_the_sequence_length(name: str, seq_len: int, count: int):
    assert parameters(catalog.model(name), seq_len) == count


@pytest.mark.parametrize(("name", "expected"), NOMINAL_PARAMETERS.items())
def test_parameter_counts_that_are_printed_rounded(name: str, expected: tuple[float, float]):
    billions, tolerance = expected
    assert parameters(catalog.model(name)) / 1e9 == pytest.approx(billions, rel=tolerance)


@pytest.mark.parametrize(("name", "expected"), ACTIVE_PARAMETERS.items())
def test_active_parameters_are_the_published_ones(name: str, expected: tuple[float, float]):
    billions, tolerance = expected
    assert active_parameters(catalog.model(name)) / 1e9 == pytest.approx(billions, rel=tolerance)


@pytest.mark.parametrize(("name", "billions"), ACTIVE_WITHOUT_EMBEDDING.items())
def test_active_parameters_of_cards_that_leave_the_embedding_out(name: str, billions: float):
    model = catalog.model(name)
    assert round((active_parameters(model) - embedding_parameters(model)) / 1e9, 2) == billions


@pytest.mark.parametrize(("name", "billions"), NEMOTRON_PARAMETERS.items())
def test_nemotron_parameters_in_and_beside_the_embedding(name: str, billions: tuple[float, float]):
    model = catalog.model(name)
    tables = embedding_parameters(model) + head_parameters(model)
    assert tables / 1e9 == pytest.approx(billions[0], abs=0.06)
    assert round((parameters(model) - tables) / 1e9, 1) == billions[1]
