"""The Trainer of Transformers: what it prints ({'loss': …}, {'train_runtime': …}), and its trainer_state.json."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.importers.text.trainers.bars import longest_bar_s
from app.importers.text.trainers.log import ARGUMENT, Log, memory_of, model_of, number, whole
from app.importers.text.values.models import catalogue_key
from estimator.scenario.measurement import FIELD_DERIVED, Warning
from estimator.scenario.units import GIB, counted

_ENTRY = re.compile(r"\{('(?:loss|train_runtime|eval_loss)':.{1,2000})\}")
_PAIR = re.compile(r"'(\w{1,60})': '?([-+\d.eE]{1,40})'?")
_ARGUMENTS = re.compile(r"(?:\bTrainingArguments|\bSFTConfig)\(")
_CONFIG = re.compile(r"[Cc]onfig (?!Generation)\w{0,60}Config \{\s*$")
_SAID = re.compile(r"(Instantaneous batch size per device|Total train batch size[^=]{0,60}|Gradient Accumulation steps"
                   r"|Total optimization steps|Number of trainable parameters) = (\d[\d,]{0,14})")  # fmt: skip
_CONFIG_LINES, _ARGUMENT_LINES = 200, 300
_KEPT = {"loss": "loss", "grad_norm": "grad_norm", "eval_loss": "eval_loss", "epoch": "epoch",
         "train_tokens_per_second": "tokens_per_s", "step_tokens_per_second": "tokens_per_s",
         "tokens_per_second_per_gpu": "tokens_per_s_per_gpu", "num_input_tokens_seen": "tokens",
         "reserved_bytes": "reserved_bytes"}  # fmt: skip
_MODES = {"True": True, "False": False}


def read(lines: Sequence[str]) -> Log | None:
    """Read what it printed, None where it printed no entry of its own."""
    entries = [
        {name: number(text) for name, text in _PAIR.findall(hit[1])} | _of_swift(hit[1])
        for line in lines
        if (hit := _ENTRY.search(line))
    ]
    said = {hit[1].split(" (")[0]: int(hit[2].replace(",", "")) for line in lines if (hit := _SAID.search(line))}
    if not entries and not (said and longest_bar_s(lines)):
        return None
    arguments = _arguments(lines)
    every = whole(arguments, {"logging_steps": "steps"}).get("steps")
    steps = said.get("Total optimization steps", 0)
    for at, entry in enumerate((one for one in entries if "loss" in one), 1):
        if every:
            entry["step"] = at * every
    # Of weights that are all trained the count tells the model; of adapters it is no model's.
    model = model_of(_config(lines)) or catalogue_key(said.get("Number of trainable parameters", 0), "")
    log = _log(entries, steps, arguments, said, model)
    return log if log.steps_s or (step_s := longest_bar_s(lines)) is None else _by_bar(log, step_s)


def _of_swift(entry: str) -> dict[str, float]:
    """What ms-swift writes of a step: its number, the time since the start in whole seconds, memory reserved so far."""
    step, since = _STEP_OF_ALL.search(entry), _ELAPSED.search(entry)
    if not step or not since:
        return {}
    day, hour, minute, second = (int(one or 0) for one in since.groups())
    found = {"step": float(step[1]), "train_runtime": float(second + 60 * (minute + 60 * (hour + 24 * day)))}
    held = _HELD.search(entry)
    return found | ({"reserved_bytes": number(held[1]) * GIB} if held else {})


_STEP_OF_ALL = re.compile(r"'global_step/max_steps': '(\d{1,9})/")
_ELAPSED = re.compile(r"'elapsed_time': '(?:(\d{1,4})d )?(?:(\d{1,4})h )?(?:(\d{1,4})m )?(\d{1,4})s'")
_HELD = re.compile(r"'memory\(GiB\)': ([\d.]{1,12})")


def _by_bar(log: Log, step_s: float) -> Log:
    message = "The step time is what the bar of the run said last, a mean over its steps with evaluations and saving"
    warnings = [
        *(one for one in log.warnings if one.code != "no-step-time"),
        Warning(code="mean-of-run", message=message),
    ]
    return replace(log, steps_s=(step_s,), warnings=tuple(warnings))


def state(document: Mapping[str, Any]) -> Log | None:
    """Read a trainer_state.json, or the train_results.json beside it as its last entry; None where it holds neither."""
    history = document.get("log_history", [document] if "train_runtime" in document else None)
    entries = [
        {name: float(value) for name, value in one.items() if isinstance(value, (int, float)) and abs(value) < 1e18}
        for one in (history if isinstance(history, list) else [])[:100_000]
        if isinstance(one, dict)
    ]
    steps, per_device = document.get("global_step"), document.get("train_batch_size")
    said = {"Instantaneous batch size per device": per_device} if isinstance(per_device, int) else {}
    if not entries:
        return None
    steps = steps if isinstance(steps, int) else 0
    log = _log(entries, steps, {}, said, {})
    seen = document.get("num_input_tokens_seen")
    counted = [*entries, {"num_input_tokens_seen": float(seen)}] if isinstance(seen, int) else entries
    return replace(log, scenario=_of_state(counted, steps, per_device)) if log.steps_s else log


def _of_state(entries: Sequence[Mapping[str, float]], steps: int, per_device: object) -> dict[str, Any]:
    """What a state says of its run: sequences of a GPU, and of a step and their tokens where its rates tell them.

    global batch = samples/s ÷ steps/s, where that is near a multiple of what one GPU takes at a time.
    """
    if not isinstance(per_device, int) or isinstance(per_device, bool) or per_device < 1:
        return {"training": {"framework": "trainer"}}
    ran_s = next((one["train_runtime"] for one in entries if one.get("train_runtime", 0.0) > 0), 0.0)
    samples = ran_s * next(
        (one["train_samples_per_second"] for one in entries if "train_samples_per_second" in one), 0.0
    )
    each = samples / steps / per_device if steps else 0.0
    batch = round(each) * per_device if each and abs(each - round(each)) <= _NEAR_FRAC * each else 0
    length = _length(entries, steps, batch)
    training = {"framework": "trainer", "global_batch": batch, "seq_len": length}
    return {
        "plan": {"micro_batch": per_device},
        "training": {name: value for name, value in training.items() if value},
    }


_NEAR_FRAC = 0.02
"""The rates of a run are those of its samples, of which the last step of an epoch may have had fewer."""


def _log(
    entries: list[dict[str, float]], steps: int, arguments: Mapping[str, str], said: Mapping[str, int],
    model: str | dict[str, Any],
) -> Log:  # fmt: skip
    """Step times between entries that have the time since the start, else the mean of the whole run."""
    warnings: list[Warning] = []
    rows: list[dict[str, Any]] = []
    timed: list[float] = []
    last: dict[str, float] | None = None
    for entry in entries:
        row: dict[str, Any] = {_KEPT[name]: value for name, value in entry.items() if name in _KEPT}
        if "loss" not in entry and "eval_loss" not in entry:
            continue
        if "step" in entry:
            row = {"step": int(entry["step"]), **row}
        if "loss" in entry and {"step", "train_runtime"} <= set(entry):
            if last is not None and entry["step"] > last["step"]:
                row["step_s"] = (entry["train_runtime"] - last["train_runtime"]) / (entry["step"] - last["step"])
                timed += [row["step_s"]] if row["step_s"] > 0 else []
            last = entry
        rows.append(row)
    whole_run = next((one for one in reversed(entries) if one.get("train_runtime") and "loss" not in one), {})
    if not timed and whole_run:
        rate, run_s = whole_run.get("train_steps_per_second", 0.0), whole_run["train_runtime"]
        # The rate has three digits behind the point, few of a slow step: with the time of the run it tells how many.
        steps = steps or round(run_s * rate)
        step_s = run_s / steps if steps else 1 / rate if rate else 0.0
        timed = [step_s] if step_s > 0 else []
        message = (
            "The step time is the mean of the whole run, with its start, evaluations and saving; "
            "include_num_input_tokens_seen=True writes times that are finer"
        )
        warnings += [Warning(code="mean-of-run", message=message)] if timed else []
    if not timed:
        rates = any(name.startswith("tokens_per_s") for row in rows for name in row)
        held = "It gives tokens per second, but no times" if rates else "It holds no times, only losses"
        message = f"{held}: a finished run has train_runtime"
        warnings.append(Warning(code="no-step-time", message=message))
    batch = said.get("Total train batch size", 0)
    each, passes = said.get("Instantaneous batch size per device", 0), said.get("Gradient Accumulation steps", 1)
    own = each * passes
    world = batch // own if batch and own and batch % own == 0 else 0
    if world:
        message = f"Derived: {batch} sequences of a step over {each} of a device in {counted(passes, 'pass', 'passes')}"
        warnings.append(Warning(code=FIELD_DERIVED, message=message, where="plan.dp"))
    length = _length(entries, steps, batch)
    return Log(
        rows=tuple(rows),
        steps_s=tuple(timed),
        scenario=_scenario(arguments, said, model, world, length),
        world_size=max(world, 1),
        memory=memory_of(rows, warnings),
        parameters=said.get("Number of trainable parameters", 0),
        warnings=tuple(warnings),
    )


def _length(entries: Sequence[Mapping[str, float]], steps: int, batch: int) -> int:
    """Tokens of a sequence, where the tokens of the whole run are known; 0 else."""
    seen = max((one.get("num_input_tokens_seen", 0.0) for one in entries), default=0.0)
    length = seen / (steps * batch) if steps and batch else 0.0
    return int(length) if length == int(length) else 0


def _arguments(lines: Sequence[str]) -> dict[str, str]:
    start = next((at for at, line in enumerate(lines) if _ARGUMENTS.search(line)), len(lines))
    found: dict[str, str] = {}
    for line in lines[start : start + _ARGUMENT_LINES]:
        if line.strip() == ")":
            break
        for name, value in ARGUMENT.findall(line):
            found.setdefault(name, value)
    return found


def _config(lines: Sequence[str]) -> object:
    """The model's configuration as it prints it on loading; None where it does not."""
    start = next((at for at, line in enumerate(lines) if _CONFIG.search(line)), None)
    if start is None:
        return None
    text = "\n".join(["{", *lines[start + 1 : start + _CONFIG_LINES]])
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


def _scenario(
    arguments: Mapping[str, str], said: Mapping[str, int], model: str | dict[str, Any], world: int, length: int
) -> dict[str, Any]:
    """What its arguments say, all of which it prints where it prints any, and its words before the first step.

    ``world`` is 0 where its batches do not tell how many GPUs there were.
    """
    modes = {name: _MODES.get(arguments.get(name, "")) for name in ("bf16", "fp16", "tf32", "gradient_checkpointing",
                                                                    "torch_compile")}  # fmt: skip
    batch = said.get("Total train batch size")
    if not (arguments or model or batch):
        return {}
    precision = next((name for name, mode in (("bf16-amp", "bf16"), ("fp16-amp", "fp16"), ("tf32", "tf32"))
                      if modes[mode]), "fp32")  # fmt: skip
    longest = whole(arguments, {"max_length": "length", "max_seq_length": "length"}).get("length", 0)
    training: dict[str, Any] = {**({"precision": precision} if arguments else {}), "framework": "trainer"}
    if batch:
        training["global_batch"] = batch
    if length or longest:
        training["seq_len"] = length or longest
    if modes["torch_compile"]:
        training |= {"compile": True, "framework": "pytorch-compile"}
    each = said.get("Instantaneous batch size per device", 0)
    plan: dict[str, Any] = {name: value for name, value in (("dp", world), ("micro_batch", each)) if value}
    if modes["gradient_checkpointing"] is not None:
        plan["recompute"] = "full" if modes["gradient_checkpointing"] else "none"
    if "full_shard" in arguments.get("fsdp", "").lower():
        plan["sharding"] = "fsdp"
    return {**({"model": model} if model else {}), "plan": plan, "training": training}
