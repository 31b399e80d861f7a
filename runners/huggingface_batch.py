"""What a model of transformers is called with in a step: text, pictures, sound or series, and labels, by its names."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from estimator.scenario.problems import InputProblems, Problem

SOUND_FRAMES = 1000
"""Frames of mel features where the model does not say how many: 10 s at 10 ms (Whisper's hop, Kaldi's default)."""
SOUND_S = 10
SAMPLES_PER_S = 16_000
"""Rate of raw sound where the config has none: what wav2vec 2.0 and its kin were trained with."""
IMAGE_SIDE = 224
"""Pixels where the config has none: ImageNet's usual crop."""
REGIONS = 36
"""Regions of a picture that LXMERT reads (Tan and Bansal 2019, section 4.2)."""
TEXT_BESIDE_AN_IMAGE = 16
"""Least tokens of text after those of an image."""

Tensors = dict[str, Any]


def batch_of(model: nn.Module, config: Any, batch: int, sequence: int) -> tuple[Tensors, tuple[str, ...]]:
    """Return what the model is called with, on the host, and notes of what was left out. Raises InputProblems."""
    taken = _taken(model)
    main = getattr(model, "main_input_name", "input_ids")
    named = [main] if isinstance(main, str) else list(main)
    names = [name for name, needed in taken.items() if needed or name in named or name in _ASKED_LATE]
    pairs = "return_loss" in taken  # of text with pictures or sound: the loss holds one against the other
    if pairs:
        names += [one for one in ("input_ids", "pixel_values", "input_features", "input_values") if one in taken]
    made: Tensors = {}
    for name in names:
        if name not in made and name in _MAKERS:
            made[name] = _MAKERS[name](model, config, batch, sequence)
    missing = [name for name, needed in taken.items() if needed and name not in made]
    if missing:
        message = f"{type(model).__name__} must be given {', '.join(missing)}, which a config does not tell"
        remedy = "Give a program of your own: MODULE:FACTORY, a function that returns (module, batch)."
        raise InputProblems([Problem(field="hf", message=message, remedy=remedy)])
    if pairs:
        return {**made, "return_loss": True}, ()
    made |= _labels(model, config, made, taken, batch, sequence)
    if "input_features" in made and "CTC" in type(model).__name__ and "attention_mask" in taken:
        made["attention_mask"] = torch.ones(made["input_features"].shape[:2], dtype=torch.int64)
    notes = _cut(made, sequence)
    if "input_ids" not in made or not _sees(config) or "pixel_values" not in taken or "pixel_values" in made:
        return made, notes
    both, seen = _with_pictures(model, config, made, taken, batch)
    return both, notes + seen


def _cut(made: Tensors, sequence: int) -> tuple[str, ...]:
    """Say where a sequence is shorter than was asked."""
    ids = made.get("input_ids", made.get("labels"))
    if "input_values" in made:  # raw sound is as long as was asked, and its letters are fewer
        return ()
    if ids is None or ids.dim() != 2 or ids.shape[1] >= sequence:
        return ()
    return (f"sequences have {ids.shape[1]:,} tokens instead of {sequence:,}: the model has no more positions",)


def _taken(model: nn.Module) -> dict[str, bool]:
    """Names that a model's forward takes, and whether it needs them."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = inspect.signature(inspect.unwrap(model.forward)).parameters
    return {name: one.default is one.empty for name, one in found.items() if one.kind not in kinds and name != "self"}


def first(config: Any, *names: str, default: Any = None) -> Any:
    """Return the first of these that a config has, or one of its parts: of vision, sound, text, an encoder."""
    parts: tuple[str, ...] = (
        "vision_config",
        "audio_config",
        "backbone_config",
        "encoder",
        "encoder_config",
        "audio_encoder_config",
    )
    parts += ("speech_config", "text_config", "decoder")
    for part in (config, *(getattr(config, one, None) for one in parts)):
        for name in names:
            found = getattr(part, name, None)
            if found is not None:
                return found
    return default


def _text(config: Any) -> Any:
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def _sees(config: Any) -> bool:
    return any(getattr(config, one, None) is not None for one in ("vision_config", "image_token_id", "vq_config"))


def _special(config: Any) -> set[int]:
    """Numbers of tokens that mean something: padding, images, ends."""
    found: set[int] = set()
    for part in {id(one): one for one in (config, _text(config))}.values():
        for name, value in vars(part).items():
            if name.endswith(("token_id", "token_ids", "token_index")):
                found |= {one for one in (value if isinstance(value, list) else [value]) if isinstance(one, int)}
    return found


def _ids(model: Any, config: Any, batch: int, sequence: int) -> torch.Tensor:
    """Ordinary tokens, drawn from one seed, so that a step is the same when it is traced and when it is measured."""
    text = _text(config)
    # XLNet and Transformer-XL have no end of positions, and say so by −1
    most = max(int(getattr(text, "max_position_embeddings", None) or 0), 0) or sequence
    vocabulary = int(getattr(text, "vocab_size", None) or first(config, "vocab_size", default=2))
    special = _special(config)
    ordinary = torch.tensor([one for one in range(vocabulary) if one not in special] or [0])
    drawn = torch.randint(0, len(ordinary), (batch, min(sequence, most)), generator=torch.Generator().manual_seed(0))
    return ordinary[drawn]


def _side(config: Any) -> tuple[int, int]:
    found = first(config, "image_size", default=IMAGE_SIDE)
    if isinstance(found, dict):
        found = (found.get("height", IMAGE_SIDE), found.get("width", IMAGE_SIDE))
    height, width = found if isinstance(found, (list, tuple)) else (found, found)
    return int(height), int(width)


def _channels(config: Any) -> int:
    found = first(config, "num_channels", "in_channels", "in_chans", default=3)
    return int(found) if isinstance(found, int) else 3


def _pixels(model: Any, config: Any, batch: int, sequence: int) -> torch.Tensor:
    height, width = _side(config)
    frames = first(config, "num_frames") if _is_of_videos(model) else None
    return torch.randn(batch, *([int(frames)] if frames else []), _channels(config), height, width)


def _is_of_videos(model: Any) -> bool:
    return any(word in type(model).__name__ for word in ("Video", "Vivit", "Timesformer", "TimeSformer", "VJEPA"))


def _videos(model: Any, config: Any, batch: int, sequence: int) -> torch.Tensor:
    height, width = _side(config)
    frames = first(config, "num_frames", "frames_per_clip", default=16)
    return torch.randn(batch, int(frames), _channels(config), height, width)


def _mel(model: Any, config: Any, batch: int, sequence: int) -> torch.Tensor:
    """Features of sound: time last where they go through a convolution of as many channels first, as Whisper's do."""
    names = ("input_feat_per_channel", "num_mel_bins", "feature_projection_input_dim", "input_feat_size", "input_dim")
    bins = int(first(config, *names, "mel_bins", default=80))
    most = first(config, "max_source_positions")
    if hasattr(first(config, "audio_config", default=config), "spec_size"):  # CLAP's: one channel, as of a picture
        return torch.randn(batch, 1, SOUND_FRAMES, bins)
    exact = next((one for one in model.modules() if isinstance(one, nn.Conv1d)), None)
    if exact is not None and exact.in_channels == bins and first(config, "input_feat_per_channel") is None:
        return torch.randn(batch, bins, 2 * int(most) if most else SOUND_FRAMES)
    return torch.randn(batch, min(SOUND_FRAMES, int(most or SOUND_FRAMES)), bins)


def _sound(model: Any, config: Any, batch: int, sequence: int) -> torch.Tensor:
    """Raw sound; a spectrogram where the model takes patches of one, channels where it is a codec."""
    bins, frames = getattr(config, "num_mel_bins", None), getattr(config, "max_length", None)
    if bins and getattr(config, "patch_size", None) and frames:
        return torch.randn(batch, int(frames), int(bins))
    ratio = getattr(config, "inputs_to_logits_ratio", None)  # what its convolutions make one token of
    rate = int(first(config, "sampling_rate", "sample_rate", default=SAMPLES_PER_S))
    samples = sequence * int(ratio) if ratio else SOUND_S * rate
    takes_channels = "ForCTC" not in type(model).__name__ and not hasattr(config, "conv_dim")
    if takes_channels and "For" not in type(model).__name__:
        return torch.randn(batch, int(first(config, "audio_channels", default=1)), samples)
    return torch.randn(batch, samples)


def _patches(model: Any, config: Any, batch: int, sequence: int) -> torch.Tensor:
    """Pix2Struct's: row, column and the pixels of each patch."""
    width = int(first(config, "patch_embed_hidden_size", default=768))
    made = torch.rand(batch, int(first(config, "seq_len", default=1024)), 2 + width)
    made[:, :, :2] = made[:, :, :2].mul(made.shape[1] ** 0.5).floor()
    return made


def _series(model: Any, config: Any, batch: int, sequence: int) -> torch.Tensor:
    width = int(first(config, "num_input_channels", default=1))
    return torch.randn(batch, _past(config), *([width] if hasattr(config, "num_input_channels") else []))


def _past(config: Any) -> int:
    lags = getattr(config, "lags_sequence", None) or [0]
    return int(first(config, "context_length", "prediction_length", default=64)) + int(max(lags))


def _features(model: Any, config: Any, batch: int, sequence: int) -> torch.Tensor:
    return torch.randn(batch, _past(config), int(getattr(config, "num_time_features", 0)))


def _observed(model: Any, config: Any, batch: int, sequence: int) -> torch.Tensor:
    return torch.ones(_series(model, config, batch, sequence).shape)


def _inputs(model: Any, config: Any, batch: int, sequence: int) -> torch.Tensor:
    """Perceiver's bytes, of which it decodes all positions that it has, or the sound of an encoder and a decoder."""
    if hasattr(config, "encoder"):
        return _sound(model, config.encoder, batch, sequence)
    return _ids(model, config, batch, int(first(config, "max_position_embeddings", default=sequence)))


def _boxes(model: Any, config: Any, batch: int, sequence: int) -> torch.Tensor:
    by_share = "Udop" in type(model).__name__  # of the page; LayoutLM's are thousandths
    kind = torch.float32 if by_share else torch.int64
    return torch.zeros(*_ids(model, config, batch, sequence).shape, 4, dtype=kind)


def _regions(model: Any, config: Any, batch: int, sequence: int) -> torch.Tensor:
    return torch.randn(batch, REGIONS, int(config.visual_feat_dim))


def _places(model: Any, config: Any, batch: int, sequence: int) -> torch.Tensor:
    return torch.rand(batch, REGIONS, int(config.visual_pos_dim))


_ASKED_LATE = ("bbox", "visual_feats", "visual_pos")
"""What some models have a default for, but refuse to be without."""

_MAKERS = {
    "input_ids": _ids,
    "qformer_input_ids": _ids,
    "inputs": _inputs,
    "bbox": _boxes,
    "visual_feats": _regions,
    "visual_pos": _places,
    "pixel_values": _pixels,
    "pixel_values_videos": _videos,
    "input_features": _mel,
    "input_values": _sound,
    "flattened_patches": _patches,
    "past_values": _series,
    "past_time_features": _features,
    "past_observed_mask": _observed,
    "task_inputs": _ids,
}
"""How each input is made that a config tells the shape of."""


def _labels(model: nn.Module, config: Any, made: Tensors, taken: dict[str, bool], batch: int, sequence: int) -> Tensors:
    """What the model's own loss is held against, and what a decoder needs that is given none."""
    kind = type(model).__name__
    found: Tensors = {}
    encodes = bool(getattr(config, "is_encoder_decoder", False))
    if "labels" not in taken:
        if encodes and "decoder_input_ids" in taken:
            found["decoder_input_ids"] = _ids(model, config, batch, sequence)
        return found
    if "Segmentation" in kind:
        return {"labels": torch.zeros(batch, *_side(config), dtype=torch.int64)}
    if any(word in kind for word in ("Detection", "Depth", "MaskedImageModeling", "SuperResolution", "KeyPoint")):
        return {}
    if "Classification" in kind:
        return {"labels": torch.zeros(batch, dtype=torch.int64)}
    ids = made.get("input_ids", made.get("inputs"))
    if ids is not None and not encodes:
        return {"labels": ids.clone()}
    words = min(sequence, int(first(config, "max_target_positions", default=sequence)))
    own = _ids(model, config, batch, max(1, words // 2) if "CTC" in kind else words)
    if ids is None and "input_ids" in taken:  # the text of a picture
        found["input_ids"] = own
    return {**found, "labels": own.clone()}


# Models that read text and see


def _with_pictures(
    model: nn.Module, config: Any, made: Tensors, taken: dict[str, bool], batch: int
) -> tuple[Tensors, tuple[str, ...]]:
    """A picture at the head of every sequence where the model can tell how many tokens it takes, else text alone."""
    whole: Any = model
    token = first(config, "image_token_id", "image_token_index")
    device = next(model.parameters()).device
    dtype = next(model.parameters()).dtype
    ask = getattr(whole, "get_image_features", None) or getattr(
        getattr(whole, "model", None), "get_image_features", None
    )
    types = {name: torch.zeros_like(made["input_ids"]) for name in _TYPES if name in taken}
    alone = {**made, **types}
    for pictures in _pictures(config, taken, batch):
        sent = {name: _moved(value, device, dtype) for name, value in pictures.items()}
        shape = "×".join(map(str, pictures["pixel_values"].shape))
        try:
            with torch.no_grad():
                if token is None or ask is None:  # read beside the text, not within it
                    both, note = {**alone, **pictures}, f"each sequence comes with a picture ({shape})"
                else:
                    tokens = _count(ask(**sent)) // batch
                    both = _placed(config, made, taken, pictures, tokens, int(token))
                    length = both["input_ids"].shape[1]
                    note = f"each sequence begins with a picture, of {tokens:,} of its {length:,} tokens ({shape})"
                model(**{name: _moved(value, device, dtype) for name, value in both.items()})
        except Exception:  # noqa: S112  (each architecture has its own way to say that it takes other pictures)
            continue
        return both, (note,)
    return alone, (TEXT_ALONE,)


_TYPES = ("token_type_ids", "mm_token_type_ids")
"""Which tokens are those of a picture."""

TEXT_ALONE = "the batch is of text alone: what sees or hears in the model does not run"


def _moved(value: Any, device: torch.device, dtype: torch.dtype) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(device, dtype) if value.is_floating_point() else value.to(device)


def _pictures(config: Any, taken: dict[str, bool], batch: int) -> Iterator[Tensors]:
    """Forms in which models take a picture for each sequence."""
    height, width = _side(config)
    channels = _channels(config)
    patch = first(config, "patch_size", "spatial_patch_size", default=14)
    if "image_grid_thw" in taken and isinstance(patch, int):
        merge = int(first(config, "spatial_merge_size", default=2))
        rows = max(height // patch // merge, 1) * merge if first(config, "image_size") else 16 * merge
        grid = torch.tensor([[1, rows, rows]] * batch)
        pixels = channels * int(first(config, "temporal_patch_size", default=1)) * patch**2
        yield {"pixel_values": torch.randn(batch * rows * rows, pixels), "image_grid_thw": grid}
    plain = torch.randn(batch, channels, height, width)
    sizes = {"image_sizes": torch.tensor([[height, width]] * batch)} if "image_sizes" in taken else {}
    yield {"pixel_values": plain, **sizes}
    yield {"pixel_values": plain.unsqueeze(1), **sizes}
    if sizes:
        for tiles in (2, 3, 5):  # the whole, and what LLaVA-NeXT's grids cut a picture of that size into
            yield {"pixel_values": torch.randn(batch, tiles, channels, height, width), **sizes}
        yield {"pixel_values": plain}


def _count(features: Any) -> int:
    found = getattr(features, "pooler_output", features)
    parts = found if isinstance(found, (list, tuple)) else [found]
    return sum(one.numel() // one.shape[-1] for one in parts if isinstance(one, torch.Tensor))


def _placed(config: Any, made: Tensors, taken: dict[str, bool], pictures: Tensors, tokens: int, token: int) -> Tensors:
    """Sequences whose first tokens are those of the picture, between its marks."""
    text = made["input_ids"]
    length = max(text.shape[1], tokens + TEXT_BESIDE_AN_IMAGE)
    ids = text.repeat(1, -(-length // text.shape[1]))[:, :length].clone()
    begin, end = first(config, "vision_start_token_id"), first(config, "vision_end_token_id")
    at = 1
    if isinstance(begin, int):
        ids[:, 0] = begin
    ids[:, at : at + tokens] = token
    if isinstance(end, int):
        ids[:, at + tokens] = end
    found = {**made, **pictures, "input_ids": ids}
    if "labels" in made:
        found["labels"] = ids.clone()
    return found | {name: (ids == token).to(torch.int64) for name in _TYPES if name in taken}
