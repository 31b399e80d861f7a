"""Meaning: which quantity a column of timings or sizes holds, whatever words its author chose."""

from __future__ import annotations

from dataclasses import dataclass

from app.importers.text.values.header import MEMORY, Column
from estimator.validation.spellings import LENGTH_COLUMNS, MODEL_COLUMNS

_FORWARD = {"forward", "fwd", "fw", "ft"}
_BACKWARD = {"backward", "bwd", "bkw", "bw", "bt"}
_BOTH = {"fbt", "fwdbwd", "fwbw"}
_STEP = {"total", "step", "training", "train", "tot", "iteration", "iter", "e2e"}
_OPTIMIZER = {"optimizer", "opt", "optim"}
_COMMUNICATION = {"communication", "comm", "sync"}
_FILLERS = {"time", "times", "pass", "runtime", "duration", "latency", "and", "the", "per", "ms", "only", "elapsed",
            "cost", "dev", "deviation", "with", "adamw", "adam", "sgd"}  # fmt: skip
_NO_TIMES = {"loss", "losses", "tokens", "token", "params", "parameters", "samples", "examples", "images", "sequences",
             "flop", "flops", "tflop", "tflops", "gflops", "pflops", "accuracy", "acc", "ppl", "perplexity", "lr",
             "epochs", "steps", "iterations", "iters", "usd", "energy", "power", "mfu", "hfu", "efficiency",
             "throughput", "gpus", "img", "image", "resolution"}  # fmt: skip
"""What is counted or computed in training or a step, and no time of it."""
_SPEEDUP = {"speedup", "speed", "speedups"}

MODEL = MODEL_COLUMNS
SEQ_LEN = {*LENGTH_COLUMNS, "t", "s"}
WIDTH = {"d_model", "dmodel", "d", "d_head", "head_dim", "dim", "hidden", "embed_dim", "d_k"}
BATCH = {"batch", "batch_size", "bs", "b"}
GLOBAL_BATCH = {"global_batch", "global_batch_size", "gbs", "total_batch", "total_batch_size", "effective_batch",
                "effective_batch_size", "global_bs", "total_train_batch_size", "train_batch_size", "bs_total",
                "total_bs", "batch_total", "batch_size_total"}  # fmt: skip
MICRO_BATCH = {"micro_batch", "micro_batch_size", "microbatch", "mbs"}
GPU_BATCH = {"batch_per_gpu", "batch_gpu", "per_gpu_batch", "per_gpu_batch_size", "batch_size_per_gpu", "local_batch",
             "local_batch_size", "per_device_batch", "per_device_batch_size", "batch_per_device", "bs_gpu",
             "bs_per_gpu", "batch_size_gpu", "local_bs", "per_device_train_batch_size", "device_batch_size",
             "train_micro_batch_size_per_gpu", "micro_bs", "micro_bsz", "per_gpu_bs"}  # fmt: skip
BATCH_TOKENS = {"batch_tokens", "batch_size_tokens", "tokens_per_batch", "tokens_batch", "global_batch_tokens",
                "global_batch_size_tokens", "global_batch_size_t", "tokens_per_step", "tokens_step",
                "tokens_per_iteration", "tokens_iter", "batch_size_in_tokens"}  # fmt: skip
_BATCHES = (BATCH, GLOBAL_BATCH, MICRO_BATCH, GPU_BATCH, BATCH_TOKENS)
ACCUMULATION = {"gradient_accumulation_steps", "gradient_accumulation", "grad_accum", "grad_accum_steps", "grad_acc",
                "ga", "gas", "accum", "accumulation_steps", "accumulate_grad_batches"}  # fmt: skip
"""How many passes a GPU makes in a step."""
SHARDING = {"sharding", "sharding_strategy", "shard_strategy"}
ZERO = {"zero", "zero_stage", "deepspeed_stage", "zero_level"}
RECOMPUTE = {"recompute", "recomputation", "activation_checkpointing", "activation_checkpoint", "act_ckpt", "ac",
             "gradient_checkpointing", "grad_checkpointing", "activation_recompute",
             "activation_recomputation"}  # fmt: skip
RECOMPUTED = {
    **dict.fromkeys(("true", "yes", "on", "full", "✓", "1"), "full"),
    **dict.fromkeys(("false", "no", "off", "none", "✗", "0"), "none"),
    **dict.fromkeys(("selective", "sac"), "selective"),
}
"""What is computed again in backward, by the words of a cell."""
GPU = {"gpu", "gpu_type", "gpu_name", "gpu_model", "device", "device_name", "hardware", "accelerator", "chip", "card",
       "hw", "accelerator_type", "machine"}  # fmt: skip
GPUS = {"gpus", "#_gpus", "#gpus", "n_gpus", "num_gpus", "number_of_gpus", "no_gpus", "gpu_count", "devices",
        "n_devices", "num_devices", "accelerators", "chips", "world_size", "ranks", "n_ranks", "n_gpu", "ngpu", "ngpus",
        "num_gpu", "gpu_num", "#gpu", "#_gpu", "#_of_gpus", "gpus_total", "total_gpus", "world", "nrgpus",
        "nr_gpus", "cards", "#cards", "#_cards", "n_cards", "num_cards", "number_of_cards", "#_of_cards",
        "card_count"}  # fmt: skip
DEGREES = {"tp": {"tp", "tensor_parallel", "tp_size", "tensor_parallel_size", "tensor_model_parallel_size"},
           "pp": {"pp", "pipeline_parallel", "pp_size", "pipeline_parallel_size", "pipeline_model_parallel_size"},
           "cp": {"cp", "context_parallel", "cp_size", "context_parallel_size"},
           "dp": {"dp", "data_parallel", "dp_size", "data_parallel_size"}}  # fmt: skip
NODES = {"nodes", "n_nodes", "num_nodes", "#_nodes", "#nodes", "nnodes"}
GPUS_PER_NODE = {"nproc_per_node", "gpus_per_node", "gpu_per_node", "gpus_node", "n_gpus_per_node", "gpus_per_host"}
PRECISION = {"precision", "dtype", "data_type", "type"}
PRECISION_FLAGS = {"bf16": "bf16-amp", "fp16": "fp16-amp", "amp": "fp16-amp"}
"""What programs turn on by a name of its own, as the Trainer's arguments do."""
PARAMETERS = {"params", "parameters", "n_params", "num_params", "num_parameters"}
OPTIMIZER_KERNEL = {"optimizer_kernel", "optimizer_kernels", "optimizer_impl", "optimizer_implementation"}
"""Which of PyTorch's kernels update the parameters: no time of the optimizer, and not which one it is."""
STATUS = {"status", "result", "ok", "state", "outcome", "exit_status"}
VERSION = {"version", "implementation", "impl", "variant", "method", "kind", "mode"}
CONFIG = {"config", "configuration", "setting", "settings"}


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """What a column measures: forward, backward, forward_backward, step, optimizer, communication, memory, speedup …;
    ``of`` names the implementation where a table compares several, ``total`` marks a sum over runs, not a mean."""

    name: str
    of: str = ""
    total: bool = False


def quantity(column: Column) -> Quantity | None:
    """Tell what a column measures, or None where its words do not say."""
    words = set(column.words)
    rest = tuple(word for word in column.words if word not in _FILLERS)
    if words & _SPEEDUP:
        phase = _phase(set(rest))
        return Quantity(name=f"{phase}_speedup" if phase else "speedup")
    if ("batch" in words and "size" in words) or (words & _NO_TIMES and not _is_time(column)):
        return None  # train_batch_size is no time of a training step, nor is train_loss
    if column.unit is None and any(name_is(column, names) for names in _BATCHES):
        return None  # nor is total_bs
    if words & MEMORY:
        return Quantity(name=_memory(words))
    known = _FORWARD | _BACKWARD | _BOTH | _STEP | _OPTIMIZER | _COMMUNICATION
    if not words & known:
        return None
    phase = _phase(set(rest))
    others = tuple(word for word in rest if word not in known and not word.isdigit())
    # a sum over runs says so beside the phase it sums: total_forward_time; total_time alone is one whole step
    total = "total" in words and column.statistic == "" and phase not in ("", "step")
    return Quantity(name=phase, of="_".join(others), total=total) if phase else None


def _is_time(column: Column) -> bool:
    return column.unit is not None and column.unit.suffix == "_s"


def _phase(words: set[str]) -> str:
    forward, backward = bool(words & _FORWARD), bool(words & _BACKWARD)
    if words & _BOTH or (forward and backward):
        return "forward_backward"
    if backward and words & _COMMUNICATION:
        return "backward_communication"
    if forward:
        return "forward"
    if backward:
        return "backward"
    if words & _OPTIMIZER:
        return "optimizer"
    if words & _STEP:
        return "step"
    return "communication" if words & _COMMUNICATION else ""


def _memory(words: set[str]) -> str:
    if "diff" in words or "difference" in words or "delta" in words:
        return "peak_memory_difference"
    if words & {"peak", "max"}:
        return "peak_memory"
    if words & {"before"}:
        return "memory_before_backward"
    if any("^2" in word for word in words):
        return "memory_per_seq_squared"
    return "memory"


def name_is(column: Column, names: set[str]) -> bool:
    """Whether a column's plain name is one of ``names``."""
    return column.name in names or (len(column.words) > 1 and column.name.replace("_", "") in names)
