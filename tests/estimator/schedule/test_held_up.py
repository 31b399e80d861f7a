"""What PyTorch's interleaved stages wait for messages of one stream, against its own order of work and messages."""

from __future__ import annotations

from typing import Any

import pytest
from torch.distributed.pipelining._schedule_visualizer import get_schedule_ops

from estimator.schedule.micro_batch import StageTimes
from estimator.schedule.schedules import held_up_s
from estimator.schedule.simulation.simulate import simulate

FORWARD, BACKWARD = "FORWARD", "FULL_BACKWARD"
SENT = {"SEND_F": ("RECV_F", 1, FORWARD), "SEND_B": ("RECV_B", -1, BACKWARD)}
"""What meets a send, how many stages further, and what made it."""


class Ranks:
    """Ranks that work in PyTorch's order; a rank's messages go one after another, each when both its ends are there."""

    def __init__(self, p: int, v: int, m: int, seconds: dict[str, float]) -> None:
        ops: list[list[Any]] = get_schedule_ops("Interleaved1F1B", p, m, num_stages_per_rank=v, with_comms=True)  # type: ignore[assignment]
        named = [[(a.computation_type.name, a.stage_index, a.microbatch_index) for a in rank] for rank in ops]
        self.work = [[a for a in rank if a[0] in seconds] for rank in named]
        self.messages = [[a for a in rank if a[0][:4] in ("SEND", "RECV")] for rank in named]
        self.stages, self.seconds = p * v, seconds
        self.done: dict[tuple[str, int, int], float] = {}
        self.free_at, self.stream_at = [0.0] * p, [0.0] * p

    def step_s(self) -> float:
        """Seconds until all is done."""
        moved = True
        while moved:
            moved = any([*map(self._works, range(len(self.work))), *map(self._sends, range(len(self.work)))])
        assert not any(self.work), "every rank came to its end"
        return max(self.free_at)

    def _works(self, rank: int) -> bool:
        if not self.work[rank]:
            return False
        kind, stage, batch = self.work[rank][0]
        ends = stage == (0 if kind == FORWARD else self.stages - 1)
        needs = None if ends else ("RECV_F" if kind == FORWARD else "RECV_B", stage, batch)
        if needs is not None and needs not in self.done:
            return False
        self.free_at[rank] = max(self.free_at[rank], self.done[needs] if needs else 0.0) + self.seconds[kind]
        self.done[self.work[rank].pop(0)] = self.free_at[rank]
        return True

    def _sends(self, rank: int) -> bool:
        if not self.messages[rank] or self.messages[rank][0][0] not in SENT:
            return False
        kind, stage, batch = self.messages[rank][0]
        meets, further, made_by = SENT[kind]
        arrives, made = (meets, stage + further, batch), (made_by, stage, batch)
        other = next((one for one, queue in enumerate(self.messages) if queue and queue[0] == arrives), None)
        if other is None or made not in self.done:
            return False
        at = max(self.stream_at[rank], self.stream_at[other], self.done[made])
        self.stream_at[rank] = self.stream_at[other] = self.done[arrives] = at
        self.messages[rank].pop(0)
        self.messages[other].pop(0)
        return True


@pytest.mark.parametrize("backward", [1.0, 2.0, 3.0])
@pytest.mark.parametrize(("p", "v"), [(2, 2), (2, 4), (3, 2), (4, 2), (4, 3), (4, 4), (6, 2), (8, 2), (8, 3)])
def test_interleaved_stages_are_held_up_as_pytorchs_order_of_messages_has_it(p, v, backward):
    stage = StageTimes(forward_s=v, input_s=v * backward / 2, weight_s=v * backward / 2)
    for m in (p, 3 * p):
        step_s = Ranks(p, v, m, {FORWARD: 1.0, BACKWARD: backward}).step_s()
        free_s = simulate("interleaved", [stage] * p, micro_batches=m, virtual_stages=v).total_s
        held_s = held_up_s(stage, p, v)
        if p == 2:
            assert held_s == pytest.approx(step_s - free_s) == 0
        assert held_s > 0.05 * free_s or p == 2
        assert free_s + held_s == pytest.approx(step_s, rel=0.04)


def test_one_chunk_of_a_rank_is_not_held_up():
    assert held_up_s(StageTimes(forward_s=1.0, input_s=1.0, weight_s=1.0), 4, 1) == 0
