"""Seconds and host memory of tracing programs without a GPU: ``python benchmarks/trace.py [NAME...]``.

Each is traced in a process of its own; families of models at their real size, from config.json, or from factories that
need diffusers (``pip install diffusers`` beside Headroom, which does without). Programs of other people are given by
``--script SCRIPT.py [-- ARGS]``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
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
    print(f"{'program':22} {'seconds':>8} {'CPU s':>7} {'MiB':>6} {'calls':>7} {'parameters':>15}  what happened")
    if arguments[:1] == ["--script"]:
        _measured(arguments[1], arguments[1:])
        return 0
    for name in arguments or FAMILIES:
        source = FAMILIES[name]
        given = [source] if isinstance(source, str) else ["--hf", str(source), "--batch", "2", "--seq", "512"]
        given += ["--precision", "bf16"]
        _measured(name, given)
    return 0


def _measured(name: str, given: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "ops.json"
        own, _, behind = " ".join(given).partition(" -- ")
        command = [sys.executable, "-m", "runners", "trace", *own.split(), "--out", str(out)]
        command += ["--", *behind.split()] if behind else []
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        began = time.perf_counter()
        with (Path(folder) / "said").open("w+") as said:
            child = subprocess.Popen(
                command, cwd=os.getcwd(), env={**os.environ, "PYTHONPATH": path}, stdout=said, stderr=said
            )
            _, status, usage = os.wait4(child.pid, 0)
            seconds = time.perf_counter() - began
            said.seek(0)
            last = [line for line in said.read().splitlines() if line.strip()][-1:]
        found = json.loads(out.read_text()) if out.exists() else {"calls": {"count": 0}, "parameters": 0}
    how = "" if status == 0 else f"failed: {last[0][:160] if last else status}"
    print(
        f"{name[-22:]:22} {seconds:8.1f} {usage.ru_utime + usage.ru_stime:7.1f} {usage.ru_maxrss / 1024:6.0f} "
        f"{found['calls']['count']:7} {found['parameters']:15,}  {how}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
