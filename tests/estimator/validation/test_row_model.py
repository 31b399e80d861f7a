"""Row model: blocks from the catalogue where the shape agrees, else from columns and the family's name."""

from estimator.validation.csv_row import MEGATRON_VOCAB, model_of_row

ROW = {"n_layers": "4", "d_model": "64", "n_heads": "4"}


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
    found = model_of_row({**ROW, "model": "Llama-3 70B, 4 layers", "d_ff": "224", "vocab": "1000"}, assumptions)
    assert (found["gated_ffn"], found["norm"], found["position"], found["bias"]) == (True, "rms", "rope", False)
    assert assumptions == ["Llama blocks, untied embedding"]


def test_a_gpt_of_unknown_width_and_vocabulary_takes_stated_defaults():
    assumptions: list[str] = []
    found = model_of_row({**ROW, "model": "GPT 1B"}, assumptions)
    assert (found["ffn"], found["vocab"], found["tied_embedding"]) == (4 * 64, MEGATRON_VOCAB, True)
    assert [text.split(" ")[0] for text in assumptions] == ["GPT", "d_ff", "vocab"]


def test_columns_beat_the_family():
    found = model_of_row({**ROW, "model": "GPT", "gated_ffn": "true", "tied_embedding": "false"}, [])
    assert (found["gated_ffn"], found["tied_embedding"]) == (True, False)
