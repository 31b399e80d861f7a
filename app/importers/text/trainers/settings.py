"""Settings: what a log says of its run by names and values, ``per_device_batch_size: 2``, in a scenario's words."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from app.importers.text.trainers.log import BUSY_GPUS, CPU, Log
from app.importers.text.values import meaning
from app.importers.text.values.figures import count
from app.importers.text.values.models import model_of
from app.importers.text.values.sizes import COUNT, model_of_sizes, whole_of
from estimator.scenario.measurement import BATCH_GUESSED, FIELD_GUESSED, Warning
from estimator.scenario.units import counted
from estimator.validation.spellings import LONGEST_NAME, chips_named, precision_of, sharding_of

_MODEL = ("model", "model_name", "model_name_or_path", "model_type", "arch", "architecture")
_GPU = ("gpu", "gpu_name", "device_name", "gpu_type", "hardware", "accelerator", "chip", "gpu_model")
_WORLD = (
    "world_size", "num_gpus", "n_gpus", "n_gpu", "gpus", "num_devices", "ngpus", "device_count", "num_processes",
)  # fmt: skip
_SHORTEST = 4
"""Letters of a table's heading that is a setting's name as well; what is shorter, as ga, may be anything in a log."""


def _also_headings(first: tuple[str, ...], headings: set[str]) -> tuple[str, ...]:
    return (*first, *sorted(name for name in headings.difference(first) if len(name) >= _SHORTEST))


_LENGTH = _also_headings(
    ("seq_len", "seq_length", "sequence_length", "max_seq_length", "max_seq_len", "max_target_length", "block_size",
     "context_length", "cutoff_len"),
    meaning.SEQ_LEN,
)  # fmt: skip
_SHARDING = (*sorted(meaning.SHARDING), "strategy", "distributed_strategy", "parallel_strategy", "parallelism")
_ZERO = tuple(sorted(meaning.ZERO))
_WHOLE_BATCH = _also_headings(
    ("global_batch_size_to_train_on", "train_batch_size", "global_train_batch_size"), meaning.GLOBAL_BATCH
)
_EACH_BATCH, _ANY_BATCH = ("batch_size", "bs"), ("batch",)
"""What programs call the batch that each GPU loads, and a word that heads tables as well, mostly over that of all."""
_OWN_BATCH = _also_headings(("per_device_batch_size",), meaning.GPU_BATCH | meaning.MICRO_BATCH)
_PASSES = _also_headings(("accum_steps",), meaning.ACCUMULATION)
_NANOGPT = ("n_embd", "block_size")
"""Settings by which nanoGPT's are known, whose passes are those of all GPUs together."""
_FEWEST_TOKENS = 1 << 16
"""A total batch from here on that sequences divide counts tokens, as build-nanogpt's and nanochat's does."""
_NEAR = 0.1
"""By how much a batch that rates tell may be off."""
_MESH = {"tp": "tensor", "pp": "pipeline", "cp": "context"}
"""Axes of MaxText's mesh, within a slice (``ici_tensor_parallelism``) and across slices (``dcn_…``), which multiply."""
_PRECISION = ("precision", "dtype", "mixed_precision", "compute_dtype")
_KINDS = ("gpu", "cuda", "tpu", "gpu_multiprocess", "rocm")
"""Words for a device that name none."""
_ON = ("true", "1", "yes", "True")
_FRAMEWORKS = ("pytorch-eager", "pytorch-compile")
_SHARDED = ("ici_fsdp_parallelism", "dcn_fsdp_parallelism")
_REST = "-1"
"""How MaxText writes that an axis takes what the others leave of the devices."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """What the settings say; "" or 0 of what they do not."""

    model: str = ""
    gpu: str = ""
    world_size: int = 0
    seq_len: int = 0
    global_batch: int = 0
    micro_batch: int = 0
    guess: str = ""
    """Why the batch is only a guess; "" where it is none."""
    precision: str = ""
    sharding: str = ""
    recompute: str = ""
    framework: str = ""
    degrees: Mapping[str, int] = field(default_factory=dict)

    @property
    def dp(self) -> int:
        """Data parallel ranks: what the other degrees leave of all."""
        return max(self.world_size // math.prod(self.degrees.values()), 1)


def said_by(settings: Mapping[str, str], ranks: int = 0) -> Said:
    """Read names in lower case with their values; whose a plain batch is, is a guess.

    ``ranks``: where the settings do not say how many there are.
    """
    world = whole_of(settings, _WORLD) or ranks or whole_of(settings, (BUSY_GPUS,))
    degrees = {axis: degree for axis in _MESH if (degree := _degree(settings, axis)) > 1}
    if world % math.prod(degrees.values()):
        degrees = {}
    dp = Said(world_size=world, degrees=degrees).dp
    own, passes = whole_of(settings, _OWN_BATCH), whole_of(settings, _PASSES) or 1
    batch, length = whole_of(settings, _WHOLE_BATCH), whole_of(settings, _LENGTH)
    if length and batch >= _FEWEST_TOKENS and batch % length == 0:
        batch //= length
    guess = ""
    if not (own or batch) and (plain := whole_of(settings, (*_EACH_BATCH, *_ANY_BATCH))):
        batch, own = plain, 0
        if passes > 1:
            batch, own = plain * passes * (1 if all(name in settings for name in _NANOGPT) else dp), plain
        elif plain % dp or (dp > 1 and whole_of(settings, _EACH_BATCH)):
            batch, own = plain * dp, plain
        if dp > 1 and passes == 1 and plain % dp == 0:
            guess = _guess(plain, dp, of_each=own > 0)
        elif not world and passes == 1 and whole_of(settings, _EACH_BATCH):
            guess = f"The log says batch {plain} and not on how many GPUs; of several it may be that of each"
    on_mesh = any(name in settings for name in _SHARDED)  # MaxText: a device's batch is so even if several share it
    if own and world and not batch:
        batch = own * passes * (world if on_mesh else dp)
    if on_mesh and degrees:
        own = batch // (dp * passes) if "pp" not in degrees and batch % (dp * passes) == 0 else 0
    sharded = any(whole_of(settings, (name,)) > 1 for name in _SHARDED)
    if any(settings.get(name) == _REST for name in _SHARDED):
        sharded |= dp > (whole_of(settings, ("ici_data_parallelism",)) or 1)
    precision = precision_of(_first(settings, _PRECISION))
    if precision == "bf16" and settings.get("weight_dtype", "") in ("float32", "fp32"):
        precision = "bf16-amp"
    framework = settings.get("framework", "")
    flag = next((precision for name, precision in meaning.PRECISION_FLAGS.items() if settings.get(name, "") in _ON), "")
    return Said(
        model=_first(settings, _MODEL),
        gpu=CPU if (gpu := _first(settings, _GPU)).lower() == CPU else "" if gpu.lower() in _KINDS else gpu,
        world_size=world,
        seq_len=length,
        global_batch=batch,
        micro_batch=own,
        guess=guess,
        precision=precision or flag,
        sharding="fsdp" if sharded else _sharding(settings),
        recompute=_recompute(settings),
        framework="xla" if on_mesh else framework if framework in _FRAMEWORKS else "",
        degrees=degrees,
    )


def _guess(plain: int, dp: int, *, of_each: bool) -> str:
    """Why a batch is only a guess: it may be that of each data parallel rank or of all."""
    taken, other = ("each, as most programs mean it", "all") if of_each else ("all", "each")
    sums = (plain * dp, plain) if of_each else (plain, plain * dp)
    return (
        f"The log says batch {plain} and {dp} data parallel ranks, not whether that is of each or of all. It is taken"
        f" for that of {taken}: {sums[0]} sequences in a step. Where it is that of {other} there are {sums[1]}"
    )


def _told(said: Said, log: Log) -> Said:
    """The settings with their batch as the log's own rates and times tell it, where it was a guess."""
    if not said.guess:
        return said
    sequences = (_sequences(row, said) for row in log.rows)
    sequences_of_step = statistics.median(known) if (known := [one for one in sequences if one]) else 0.0
    plain = said.micro_batch or said.global_batch
    for batch, of_pass in ((plain, 0), (plain * said.dp, plain)):
        if sequences_of_step and abs(sequences_of_step / batch - 1) < _NEAR:
            return replace(said, global_batch=batch, micro_batch=of_pass, guess="")
    return said


def _sequences(row: Mapping[str, Any], said: Said) -> float:
    """Sequences of a step, as its rate times its time; 0 where either is missing."""
    seconds = row.get("step_s") or 0.0
    tokens_per_s = row.get("tokens_per_s") or said.world_size * row.get("tokens_per_s_per_gpu", 0.0)
    sequences_per_s = row.get("samples_per_s") or (tokens_per_s / said.seq_len if said.seq_len else 0.0)
    return float(sequences_per_s * seconds)


def _sharding(settings: Mapping[str, str]) -> str:
    named = (sharding_of(settings[name]) for name in _SHARDING if name in settings)
    trainer = settings.get("fsdp", "").split()  # of Transformers: full_shard auto_wrap
    wrapped = [sharding_of(word) for word in trainer[:1]]
    stages = (sharding_of(f"zero{settings[name]}") for name in _ZERO if name in settings)
    return next((found for found in (*named, *wrapped, *stages) if found), "")


def _recompute(settings: Mapping[str, str]) -> str:
    if settings.get("remat_policy") == "full":
        return "full"
    said = (settings[name].lower() for name in sorted(meaning.RECOMPUTE) if name in settings)
    return next((meaning.RECOMPUTED[word] for word in said if word in meaning.RECOMPUTED), "")


def _degree(settings: Mapping[str, str], axis: str) -> int:
    mesh = (whole_of(settings, (f"{fabric}_{_MESH[axis]}_parallelism",)) or 1 for fabric in ("ici", "dcn"))
    return whole_of(settings, _also_headings((), meaning.DEGREES[axis])) or math.prod(mesh)


def with_settings(log: Log, settings: Mapping[str, str], built: Mapping[str, Any] | None = None) -> Log:
    """The log with its run's scenario, ranks and GPU, and one warning of what it leaves out.

    ``built``: the model, where its configuration is there.
    """
    said = _told(said_by(settings, log.world_size if log.world_size > 1 else 0), log)
    world = said.world_size or 1
    if not log.steps_s:
        return replace(log, world_size=world)
    named = model_of({"model": said.model.rpartition("/")[2]}) or model_of({"model": said.model})
    sized, assumed = ({}, "") if built or named else model_of_sizes({"seq_len": str(said.seq_len), **settings})
    model = dict(built) if built else named or ({**sized, "name": said.model} if sized else "")
    chips = (said.gpu,) if said.gpu == CPU else chips_named(said.gpu)
    lacking = {
        "model": model,
        "global batch": said.global_batch,
        "sequence length": said.seq_len,
        "number of GPUs": said.world_size,
        "GPU": chips,
    }
    warnings = [*log.warnings]
    if unsaid := [name for name, value in lacking.items() if not value]:
        odd = [f"{text[:LONGEST_NAME]!r} is none that is known" for text, known in
               ((said.model, model), (said.gpu, chips)) if text and not known]  # fmt: skip
        message = f"The log does not say its {', '.join(unsaid)}, which a prediction of its step needs"
        warnings.append(Warning(code="settings-unsaid", message="; ".join([message, *odd])))
    if assumed:
        warnings.append(Warning(code="model-assumed", message=f"The log states {assumed}"))
    if said.world_size and said.world_size == whole_of(settings, (BUSY_GPUS,)) and not whole_of(settings, _WORLD):
        message = f"nvidia-smi saw work on {counted(said.world_size, 'GPU')} as the run began"
        warnings.append(Warning(code=FIELD_GUESSED, message=message, where="plan.dp"))
    if said.guess:
        warnings.append(Warning(code=BATCH_GUESSED, message=said.guess))
    return replace(
        log,
        world_size=world,
        gpu=said.gpu,
        warnings=tuple(warnings),
        scenario=_scenario(said, model),
        parameters=round(count(settings.get(COUNT, "")) or 0),
    )


def _scenario(said: Said, model: str | dict[str, Any] | None) -> dict[str, Any]:
    """What is said of a scenario; {} where neither model nor batch nor length is."""
    if not (model or said.global_batch or said.micro_batch or said.seq_len):
        return {}
    plan: dict[str, Any] = {**({"dp": said.dp} if said.world_size else {}), **said.degrees}
    if said.micro_batch:
        plan["micro_batch"] = said.micro_batch
    plan |= {name: value for name in ("sharding", "recompute") if (value := getattr(said, name))}
    training = {name: getattr(said, name) for name in ("seq_len", "global_batch", "precision", "framework")}
    stated = {name: value for name, value in training.items() if value}
    return {**({"model": model} if model else {}), "plan": plan, "training": stated}


def _first(settings: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((settings[name][:LONGEST_NAME] for name in names if settings.get(name)), "")
