"""The model of a row: by its name, the columns of its shape and the catalogue."""

from __future__ import annotations

import pytest

from estimator.validation.csv_row import model_of_row
from estimator.validation.measured import MEGATRON_VOCAB
from estimator.validation.spellings import model_of
from tests.estimator.validation.rows import assumed, read


@pytest.mark.parametrize(
    ("name", "gated", "norm", "position", "tied"),
    [
        ("Llama-like 5B", True, "rms", "rope", False),
        ("GPT L24 h1024", False, "layer", "learned", True),
        ("GPT-NeoX-like 1B", False, "layer", "rope", False),
        ("OPT-1.3B", False, "layer", "learned", True),
        ("BLOOM-7B1", False, "layer", "alibi", True),
    ],
)
def test_the_family_follows_from_the_name(name, gated, norm, position, tied):
    model = read(model=name).model
    assert (model.gated_ffn, model.norm, model.position, model.tied_embedding) == (gated, norm, position, tied)


QWEN3 = {"model": "Qwen3-0.6B", "n_layers": "28", "d_model": "1024", "n_heads": "16", "n_kv_heads": "8",
         "d_ff": "3072", "vocab": "151936"}  # fmt: skip


def test_a_model_of_the_catalogue_keeps_its_blocks():
    model = read(**QWEN3).model
    assert (model.qk_norm, model.tied_embedding, model.head_dim) == (True, True, 128)
    assert "blocks" not in assumed(**QWEN3)


@pytest.mark.parametrize("name", ["Qwen3-0.6B", "Qwen3-0.6B truncated to 4 layers", "Qwen3-0.6B (first 4 blocks)"])
def test_a_truncated_model_keeps_its_blocks_and_says_so(name):
    cut = {**QWEN3, "n_layers": "4", "model": name}
    assert "blocks as in qwen3-0.6b, at this depth and width" in assumed(**cut)
    assert (read(**cut).model.qk_norm, read(**cut).model.layers) == (True, 4)


@pytest.mark.parametrize(
    ("changes", "llama"),
    [
        ({"n_kv_heads": "4"}, "fewer key/value heads than heads"),
        ({"d_ff": "2816"}, "d_ff is not 4 · d_model"),
        ({"gated_ffn": "true"}, "its FFN is gated"),
        ({"n_kv_heads": "16", "d_ff": "4096"}, ""),
        ({"n_kv_heads": "4", "gated_ffn": "false"}, ""),
        ({"n_kv_heads": "4", "model": "some gpt"}, ""),
    ],
)
def test_a_shape_without_a_name_tells_its_blocks(changes, llama):
    given = {"model": "", **changes}
    model = read(**given).model
    blocks = (model.gated_ffn, model.norm, model.position, model.tied_embedding)
    assert blocks == ((True, "rms", "rope", False) if llama else (False, "layer", "learned", True))
    said = f"Llama-like ({llama}) blocks, untied embedding" if llama else "GPT blocks, tied embedding"
    assert said in assumed(**given)


def test_columns_override_the_family():
    model = read(gated_ffn="true", tied_embedding="false", head_dim="128", n_kv_heads="4").model
    assert (model.gated_ffn, model.tied_embedding, model.head_dim, model.kv_heads) == (True, False, 128, 4)


def test_experts_come_from_the_catalogue_at_any_depth():
    model = read(model="Mixtral-8x7B").model
    assert (model.experts, model.top_k, model.layers) == (8, 2, 24)
    assert "blocks as in mixtral-8x7b, at this depth and width" in assumed(model="Mixtral-8x7B")


SHAPE = {"n_layers": "4", "d_model": "64", "n_heads": "4"}


def test_the_catalogue_tells_the_blocks_of_a_known_model_of_the_same_shape():
    assumptions: list[str] = []
    row = {
        "model": "Qwen3-0.6B",
        "n_layers": "28",
        "d_model": "1024",
        "n_heads": "16",
        "vocab": "151936",
        "d_ff": "3072",
    }
    found = model_of_row(row, assumptions)
    assert (found["norm"], found["qk_norm"], found["head_dim"], found["tied_embedding"]) == ("rms", True, 128, True)
    assert assumptions == []


def test_a_truncated_model_is_known_by_its_family_and_says_so():
    assumptions: list[str] = []
    found = model_of_row({**SHAPE, "model": "Llama-3 70B, 4 layers", "d_ff": "224", "vocab": "1000"}, assumptions)
    assert (found["gated_ffn"], found["norm"], found["position"], found["bias"]) == (True, "rms", "rope", False)
    assert assumptions == ["Llama blocks, untied embedding"]


def test_a_gpt_of_unknown_width_and_vocabulary_takes_stated_defaults():
    assumptions: list[str] = []
    found = model_of_row({**SHAPE, "model": "GPT 1B"}, assumptions)
    assert (found["ffn"], found["vocab"], found["tied_embedding"]) == (4 * 64, MEGATRON_VOCAB, True)
    assert [text.split(" ")[0] for text in assumptions] == ["GPT", "d_ff", "vocab"]


def test_columns_beat_the_family():
    found = model_of_row({**SHAPE, "model": "GPT", "gated_ffn": "true", "tied_embedding": "false"}, [])
    assert (found["gated_ffn"], found["tied_embedding"]) == (True, False)


def test_what_is_done_with_a_model_is_no_part_of_its_name():
    for name in ("Llama3.1-8B full finetune", "Llama3-8B SFT", "Llama3-8B [forward+backward]"):
        found = model_of(name)
        assert found is not None, name
        assert found.name == "llama3-8b"
    assert model_of("no such model") is None


def test_a_network_without_a_vocabulary_head_has_none():
    row = {"model": "BERT-Large", "notes": "AutoModelForSequenceClassification: NO vocabulary head"}
    assert not read(**row).model.head
    assert read(model="BERT-Large").model.head
    assert (read(model="OPT-1.3B").model.activation, read(activation="relu").model.activation) == ("relu", "relu")
    assert (read(model="OPT-1.3B").model.clamped_scores, read(model="BERT-Large").model.clamped_scores) == (True, False)
    assert (read(dropout="0.1").training.dropout, read().training.dropout) == (0.1, 0.0)
