"""The Triton flash kernels beside the fastest of torch's own on this GPU, by the ``attention`` benchmark."""

from __future__ import annotations

import argparse

import torch

from runners.benchmarks.attention import run
from runners.job import Job

TORCH = ("sdpa-flash", "sdpa-efficient", "sdpa-cudnn")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dims", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--lengths", type=int, nargs="+", default=[4096, 8192, 16384])
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--samples", type=int, default=10)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU here, nothing to compare")
        return
    options = {
        "implementations": [*TORCH, "triton"],
        "dims": arguments.dims,
        "seq_lens": arguments.lengths,
        "precisions": [arguments.precision],
    }
    result = run(
        Job(benchmark="attention", device="cuda", steps=arguments.samples, options=options), lambda event: None
    )
    assert result is not None
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, medians of {arguments.samples} samples")
    print("head dim  length  causal  pass      fastest of torch's own       Triton    torch's time / Triton's")
    configurations = dict.fromkeys((r["head_dim"], r["seq_len"], r["causal"], r["pass"]) for r in result.rows)
    for key in configurations:
        rows = {
            row["implementation"]: row
            for row in result.rows
            if (row["head_dim"], row["seq_len"], row["causal"], row["pass"]) == key and row["status"] == "ok"
        }
        ours = rows.pop("triton", None)
        if ours is None or not rows:
            print(*key, "not measured")
            continue
        name = min(rows, key=lambda name: rows[name]["median_s"])
        dim, length, causal, which = key
        print(
            f"{dim:8d}{length:8d}  {causal!s:6s}  {which:9s} {name:14s}{rows[name]['flops_per_s'] / 1e12:7.1f} TFLOP/s"
            f"{ours['flops_per_s'] / 1e12:8.1f} TFLOP/s  {rows[name]['median_s'] / ours['median_s']:6.3f}"
        )


if __name__ == "__main__":
    main()
