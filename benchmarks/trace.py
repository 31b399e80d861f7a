"""Seconds and host memory of tracing programs without a GPU: ``python benchmarks/trace.py [--write] [NAME...]``.

``--write`` puts the table into docs/tracing.md. Beside the parameters that a trace counts stand those of the module as
transformers or diffusers builds it, counted apart.

Each is traced in a process of its own; families of models at their real size, from config.json, or from factories that
need diffusers (``pip install diffusers`` beside Headroom, which does without). Programs of other people are given by
``--script SCRIPT.py [-- ARGS]``.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/tracing.md"
BEGIN, END = "<!-- benchmarks/trace.py: begin -->", "<!-- benchmarks/trace.py: end -->"
OURS, HF = ROOT / "tests/reference/traced_configs", ROOT / "tests/reference/hf_configs"

FAMILIES = {
    "Llama 3.1 8B": HF / "llama3.1-8b.json",
    "Llama 3 70B": OURS / "llama-3-70b.json",
    "Mistral 7B, window": HF / "mistral-7b-v0.1.json",
    "Mixtral 8x7B": HF / "mixtral-8x7b-v0.1.json",
    "Qwen2.5 7B": HF / "qwen2.5-7b.json",
    "Qwen3 8B": HF / "qwen3-8b.json",
    "Gemma-2 9B": HF / "gemma-2-9b.json",
    "Phi-3 mini": OURS / "phi-3-mini.json",
    "OLMo-2 7B": OURS / "olmo-2-7b.json",
    "GPT-2 XL": HF / "gpt2-xl.json",
    "GPT-NeoX 20B": HF / "gpt-neox-20b.json",
    "DeepSeek-V2-lite": HF / "deepseek-v2-lite.json",
    "BERT large": OURS / "bert-large.json",
    "T5 large": OURS / "t5-large.json",
    "ViT large": OURS / "vit-large.json",
    "Whisper large v3": OURS / "whisper-large-v3.json",
    "Mamba-2 2.7B": OURS / "mamba2-2.7b.json",
    "ResNet-50": OURS / "resnet-50.json",
    "DiT-XL/2": "benchmarks.trace_factories:dit",
    "UNet, SD 1.5": "benchmarks.trace_factories:unet",
}


def main(arguments: list[str]) -> int:
    """Trace what is named, all without names; print a table."""
    if arguments[:1] == ["--count"]:
        print(_parameters(arguments[1]))
        return 0
    writes = arguments[:1] == ["--write"]
    arguments = arguments[writes:]
    print("\n".join(HEAD))
    if arguments[:1] == ["--script"]:
        print(_measured(arguments[1], arguments[1:]))
        return 0
    rows = []
    for name in arguments or FAMILIES:
        source = FAMILIES[name]
        given = [source] if isinstance(source, str) else ["--hf", str(source), "--batch", "2", "--seq", "512"]
        rows.append(_measured(name, [*given, "--precision", "bf16"], counted=_in_a_process(str(source))))
        print(rows[-1], flush=True)
    if writes:
        text = PAGE.read_text(encoding="utf-8")
        before, after = text[: text.index(BEGIN)], text[text.index(END) :]
        PAGE.write_text("\n".join([before + BEGIN, *HEAD, *rows, after]), encoding="utf-8")
    return 0


HEAD = (
    "| program | seconds of CPU | MiB of the host | calls | parameters, as traced | of the module |",
    "|---|--:|--:|--:|--:|--:|",
)


def _in_a_process(source: str) -> str:
    """Ask a process of its own for the module's parameters, whose modules are not this one's to hold."""
    command = [sys.executable, __file__, "--count", source]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}
    )
    return f"{int(done.stdout.split()[-1]):,}" if done.returncode == 0 else "not counted"


def _parameters(source: str) -> int:
    """Count a module's parameters on the meta device, tied ones once."""
    import torch

    if source.endswith(".json"):
        from runners.huggingface import of_config

        module, _, _ = of_config(source, batch=1, seq=8, attention="sdpa", dtype=torch.bfloat16, device="meta")
    else:
        name, _, factory = source.partition(":")
        with torch.device("meta"):
            module = getattr(importlib.import_module(name), factory)()[0]
    return sum(one.numel() for one in module.parameters())


def _measured(name: str, given: list[str], counted: str = "") -> str:
    """Trace one program; return its row."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "ops.json"
        own, _, behind = " ".join(given).partition(" -- ")
        command = [sys.executable, "-m", "runners", "trace", *own.split(), "--out", str(out)]
        command += ["--", *behind.split()] if behind else []
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        with (Path(folder) / "said").open("w+") as said:
            child = subprocess.Popen(
                command, cwd=os.getcwd(), env={**os.environ, "PYTHONPATH": path}, stdout=said, stderr=said
            )
            _, status, usage = os.wait4(child.pid, 0)
            said.seek(0)
            last = [line for line in said.read().splitlines() if line.strip()][-1:]
        found = json.loads(out.read_text()) if out.exists() else {"calls": {"count": 0}, "parameters": 0}
    took = f"{usage.ru_utime + usage.ru_stime:.1f} | {usage.ru_maxrss / 1024:.0f}"
    if status:
        return f"| {name[-22:]} | {took} | | failed: {last[0][:160] if last else status} | |"
    return f"| {name[-22:]} | {took} | {found['calls']['count']:,} | {found['parameters']:,} | {counted} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
