"""Context parallelism: what Ulysses, ring and all-gather attention exchange when ranks hold parts of a sequence."""

from __future__ import annotations

from estimator.communication.message import Message
from estimator.scenario.arrays import maximum, where
from estimator.scenario.units import Number


def context_messages(
    *,
    cp_kind: str,
    cp: Number,
    tokens: Number,
    query_width: Number,
    key_width: Number,
    value_width: Number,
    output_width: Number,
    element_bytes: Number,
    gradient_bytes: Number | None = None,
    keep: bool = False,
    recompute: bool = False,
    waits: bool = False,
) -> list[Message]:
    """Return the messages of one attention layer; ``tokens`` are those of this rank, widths those of its tp share.

    - ulysses: q, k, v and the output change from a share of tokens to a share of heads and back, 4 all-to-alls each
      way (Jacobs 2023, arXiv 2309.14509, section 3.1): (cp − 1)/cp of each local tensor leaves a rank. Where key/value
      heads are fewer than cp their copies travel too: a rank's widths are of max(kv_heads / tp, cp) heads.
    - ring: cp − 1 messages of k and v forward; of k, v and their gradients backward (Liu 2023, arXiv 2310.01889),
      where each rank adds its own part of the gradients at home. They run beside attention; where a program ``waits``
      (runners/parallel/zigzag.py), forward's first, which is asked for behind a rank's own piece, and the gradients,
      which are asked for behind the piece that they come from, stand in line.
    - all-gather: k and v of the whole sequence, gathered again in backward unless ``keep``; their gradients are
      reduce-scattered (Dubey 2024, arXiv 2407.21783, section 3.3.2).

    ``gradient_bytes``: width of the travelling gradients, as ``element_bytes`` unless given. ``recompute``: full
    recomputation, which repeats what forward exchanged before attention.
    """
    gradient = element_bytes if gradient_bytes is None else gradient_bytes
    keys_values = tokens * (key_width + value_width)
    handed = where(cp > 1, 1.0, 0.0)
    again = recompute and not (cp_kind == "all-gather" and not keep)
    if cp_kind == "ulysses":
        found = []
        for phase, suffix, repeated in (
            ("forward", "", False),
            ("backward", " gradients", False),
            ("backward", " again", True),
        ):
            if repeated and not again:
                continue
            for name, width in (("queries", query_width), ("keys", key_width), ("values", value_width)):
                found.append(
                    _line(f"{name}{suffix}", "all-to-all", phase, tokens * width * element_bytes, 1.0, batches=handed)
                )
            # Recomputation needs attention's output in place too: the projection's weight gradient reads it.
            found.append(
                _line(
                    f"attention output{suffix}",
                    "all-to-all",
                    phase,
                    tokens * output_width * element_bytes,
                    1.0,
                    batches=handed,
                )
            )
        return found
    if cp_kind == "ring":
        forward, back = keys_values * element_bytes, keys_values * gradient
        first = handed / maximum(cp - 1, 1.0) if waits else 0.0
        found = [_line("keys, values", "p2p", "forward", forward, cp - 1, beside=True, batches=1.0, open_frac=first)]
        if waits:
            found += [
                _line("keys, values of backward", "p2p", "backward", forward, cp - 1, beside=True, batches=1.0),
                _line("key, value gradients", "p2p", "backward", back, cp - 1, batches=1.0),
            ]
        else:
            both = forward + back
            found += [_line("keys, values and gradients", "p2p", "backward", both, cp - 1, beside=True, batches=2.0)]
        if again:
            found.append(
                _line("keys, values again", "p2p", "backward", forward, cp - 1, beside=True, batches=1.0,
                      open_frac=first)
            )  # fmt: skip
        return found
    assert cp_kind == "all-gather", cp_kind
    whole = cp * keys_values
    found = [
        _line("key, value gather", "all-gather", "forward", whole * element_bytes, 1.0, batches=handed),
        _line("key, value gradient scatter", "reduce-scatter", "backward", whole * gradient, 1.0, batches=handed),
    ]
    if again or not keep:
        found.append(
            _line("key, value gather again", "all-gather", "backward", whole * element_bytes, 1.0, batches=handed)
        )
    return found


def _line(
    name: str,
    kind: str,
    phase: str,
    payload_bytes: Number,
    count: Number,
    *,
    beside: bool = False,
    batches: Number = 0.0,
    open_frac: Number = 0.0,
) -> Message:
    return Message(
        name=name, kind=kind, axis="cp", group="cp", phase=phase, payload_bytes=payload_bytes, count=count,
        hides_behind="attention" if beside else "", batches=batches, open_frac=open_frac,
    )  # fmt: skip
