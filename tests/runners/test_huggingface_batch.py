"""What models of transformers are called with: by what their forward takes and their config tells."""

import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from estimator.scenario.problems import InputProblems
from runners.huggingface import of_config
from runners.huggingface_batch import batch_of

TEXT = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
SEES = {**TEXT, "image_size": 28, "patch_size": 14, "projection_dim": 16}
SPEAKS = {**TEXT, "conv_dim": [8, 8], "conv_stride": [160, 2], "conv_kernel": [160, 2], "num_feat_extract_layers": 2,
          "num_conv_pos_embedding_groups": 2, "vocab_size": 32}  # fmt: skip
T5 = {"vocab_size": 64, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}


def made(config, device="meta"):
    return of_config(config, batch=2, seq=8, attention="eager", dtype=torch.float32, device=device)


@pytest.mark.parametrize(
    ("config", "kind", "shapes"),
    [
        ({"model_type": "bert", **TEXT}, "BertForMaskedLM", {"input_ids": (2, 8), "labels": (2, 8)}),
        ({"model_type": "t5", **T5}, "T5ForConditionalGeneration", {"input_ids": (2, 8), "labels": (2, 8)}),
        (
            {"model_type": "wav2vec2", "architectures": ["Wav2Vec2ForCTC"], **SPEAKS},
            "Wav2Vec2ForCTC",
            {"input_values": (2, 8 * 320), "labels": (2, 4)},
        ),
        (
            {"model_type": "speech_to_text", "num_conv_layers": 1, "conv_kernel_sizes": [3]},
            "Speech2TextForConditionalGeneration",
            {"input_features": (2, 1000, 80), "labels": (2, 8)},
        ),
        (
            {"model_type": "segformer", "architectures": ["SegformerForSemanticSegmentation"]},
            "SegformerForSemanticSegmentation",
            {"pixel_values": (2, 3, 224, 224), "labels": (2, 224, 224)},
        ),
        (
            {"model_type": "clip", "text_config": TEXT, "vision_config": SEES},
            "CLIPModel",
            {"input_ids": (2, 8), "pixel_values": (2, 3, 28, 28)},
        ),
    ],
)
def test_a_model_is_given_what_its_forward_takes(config, kind, shapes):
    module, tensors, notes = made(config)
    assert type(module).__name__ == kind
    assert {name: tuple(one.shape) for name, one in tensors.items() if isinstance(one, torch.Tensor)} == shapes
    assert ("return_loss" in tensors) == ("labels" not in tensors)
    assert notes == ()
    assert getattr(module.config, "decoder_start_token_id", 0) is not None


def test_a_model_that_sees_is_given_a_picture_and_the_note_says_how_many_tokens_it_takes():
    config = {"model_type": "llava", "text_config": {"model_type": "llama", **TEXT}, "image_token_index": 5,
              "vision_config": {"model_type": "clip_vision_model", **SEES}, "vision_feature_layer": -1}  # fmt: skip
    module, tensors, notes = made(config, "cpu")
    assert tensors["pixel_values"].shape == (2, 3, 28, 28)
    assert (tensors["input_ids"] == 5).sum().item() == 2 * 4  # patches of 14 pixels
    assert notes == ("each sequence begins with a picture, of 4 of its 20 tokens (2×3×28×28)",)
    module(**tensors).loss.backward()
    assert all(one.grad is not None for one in module.model.multi_modal_projector.parameters())


def test_ordinary_tokens_are_the_same_each_time():
    first, again = (made({"model_type": "bert", **TEXT, "pad_token_id": 3}, "cpu")[1]["input_ids"] for _ in range(2))
    assert torch.equal(first, again)
    assert 3 not in first


def test_numbers_without_a_word_in_json_are_read():
    config = {"model_type": "bert", **TEXT, "layer_norm_eps": {"__float__": "Infinity"}}
    assert made(config)[0].config.layer_norm_eps == float("inf")


def test_a_sequence_that_was_cut_is_said():
    (note,) = made({"model_type": "gpt2", "n_layer": 1, "n_embd": 16, "n_head": 2, "n_positions": 4})[2]
    assert note.startswith("sequences have 4 tokens instead of 8")


def test_a_config_that_asks_for_more_modules_than_anybody_builds_is_refused_at_once():
    for config, words in (
        ({"model_type": "llama", "num_hidden_layers": 10**7}, "num_hidden_layers = 10,000,000"),
        ({"model_type": "llava", "text_config": {"model_type": "gpt2", "n_layer": 10**5}}, "n_layer = 100,000"),
        ({"model_type": "mixtral", "num_local_experts": 10**6}, "num_local_experts = 1,000,000"),
    ):
        with pytest.raises(InputProblems, match=words):
            made(config)


def test_a_field_that_is_wrong_is_named_and_an_input_that_no_config_tells():
    with pytest.raises(InputProblems, match=r"is no config of bert: .*hidden_act"):
        made({"model_type": "bert", "hidden_act": 5})

    class Model(nn.Module):
        def forward(self, secret, more=None): ...

    with pytest.raises(InputProblems, match="Model must be given secret, which a config does not tell"):
        batch_of(Model(), SimpleNamespace(), 1, 8)


def test_without_transformers_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)  # as Python has a module that cannot be imported
    with pytest.raises(InputProblems) as refused:
        made({"model_type": "llama"})
    (problem,) = refused.value.problems
    assert problem.message == "needs transformers, which is not installed"
    assert problem.remedy.startswith(f"Run: {sys.executable} -m pip install transformers.")
