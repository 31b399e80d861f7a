"""Inputs of the DeepFlow study, and the nouns that they make: model, technology, machine, rates, plan."""

from __future__ import annotations

from dataclasses import dataclass, fields

from estimator.cost.cache_roofline import MODES, chosen_tile
from estimator.scenario.codec import spec
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.units import GIB, KIB, Number
from estimator.studies.deepflow.kernel_split import KINDS, split_of
from estimator.studies.deepflow.lstm import Lstm
from estimator.studies.deepflow.lstm_plan import LstmPlan
from estimator.studies.deepflow.lstm_price import Rates, rates
from estimator.studies.deepflow.technology import Machine, Technology, machine, ring_links

KIND_OF_TYPE = {"none": -1, "column-row": 1, "row-column": 2}
"""Kinds of kernel parallelism as the reference numbers them."""


def _degree(help: str) -> int:
    degree: int = spec(1, minimum=1, maximum=65_536, help=help)
    return degree


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What can be changed; the defaults are the reference's."""

    batch: int = spec(512, minimum=1, maximum=10**7, help="sequences in the batch")
    vocab: int = spec(800_000, minimum=1, maximum=10**8, help="words of the vocabulary")
    layers: int = spec(2, minimum=1, maximum=10**4, help="recurrent layers")
    hidden: int = spec(19_968, minimum=1, maximum=10**6, help="width of a recurrent layer")
    projection: int = spec(2_048, minimum=1, maximum=10**6, help="width of the projection before the softmax")
    sequence: int = spec(20, minimum=1, maximum=10**5, help="time steps of a sequence")
    gates: int = spec(4, minimum=1, maximum=16, help="gates of a cell")
    element_bytes: int = spec(4, minimum=1, maximum=8, help="bytes of one number")
    power_w: float = spec(300.0, minimum=1e-3, maximum=1e7, help="power budget of one processor, W")
    core_power_frac: float = spec(0.2592, minimum=0, maximum=1, help="share of the power for compute units")
    dram_power_frac: float = spec(0.2592, minimum=0, maximum=1, help="share of the power for device memory")
    l2_power_frac: float = spec(0.16896, minimum=0, maximum=1, help="share of the power for the L2 cache")
    shared_power_frac: float = spec(0.202752, minimum=0, maximum=1, help="share of the power for shared memory")
    link_power_frac: float = spec(0.2, minimum=0, maximum=1, help="share of the power for links")
    core_j_per_flop: float = spec(11.9e-12, minimum=1e-18, maximum=1, help="energy of one FLOP, J")
    dram_j_per_bit: float = spec(6e-12, minimum=1e-21, maximum=1, help="energy of one bit from device memory, J")
    l2_j_per_bit: float = spec(5e-15, minimum=1e-21, maximum=1, help="energy of one bit from L2, J")
    shared_j_per_bit: float = spec(1e-15, minimum=1e-21, maximum=1, help="energy of one bit from shared memory, J")
    link_j_per_bit: float = spec(
        13e-12, minimum=1e-21, maximum=1, help="energy of one bit over a link, J; unused in the reference, 13 pJ later"
    )
    hbm_stack_bytes_per_s: float = spec(225.0 * GIB, minimum=1, help="bandwidth of one memory stack")
    hbm_stack_bytes: float = spec(4.0 * GIB, minimum=1, help="capacity of one memory stack")
    l2_bank_bytes_per_s: float = spec(4000.0 * GIB, minimum=1, help="bandwidth of one bank of L2")
    l2_bank_bytes: float = spec(32.0 * KIB, minimum=0, help="capacity of one bank of L2")
    shared_bank_bytes_per_s: float = spec(4000.0 * GIB, minimum=1, help="bandwidth of one bank of shared memory")
    shared_bank_bytes: float = spec(32.0 * KIB, minimum=0, help="capacity of one bank of shared memory")
    utilisation_frac: float = spec(0.7, minimum=1e-3, maximum=1, help="derates FLOP/s and memory bandwidth alone")
    dram_latency_s: float = spec(50e-9, minimum=0, maximum=1, help="latency of device memory")
    link_latency_s: float = spec(1.6e-6, minimum=0, maximum=1, help="latency of one message over a link")
    launch_s: float = spec(37e-6, minimum=0, maximum=1, help="launch of one kernel")
    mode: str = spec("compatible", choices=MODES, help="compatible: the reference's branch; bound: longest level")
    l2_tile: int = spec(0, minimum=0, maximum=10**6, help="edge of the tiles held in L2; 0: the largest power of two")
    shared_tile: int = spec(0, minimum=0, maximum=10**6, help="edge of the tiles in shared memory; 0: the largest")
    register_tile: int = spec(
        8, minimum=1, maximum=10**4, help="edge of the tiles in registers; times shared memory in mode bound"
    )
    dp: int = _degree("data parallel degree")
    lp: int = _degree("groups of chips in a chain: hlp, + 1 with the softmax apart, + 2 with the embedding too")
    hlp: int = _degree("pipeline stages of recurrent layers")
    kp_hidden_type: str = spec("none", choices=KINDS, help="kernel parallelism of the recurrent products")
    kp_hidden_1: int = _degree("its first degree")
    kp_hidden_2: int = _degree("its second degree (row-column)")
    kp_softmax_type: str = spec("none", choices=KINDS, help="kernel parallelism of the softmax")
    kp_softmax_1: int = _degree("its first degree")
    kp_softmax_2: int = _degree("its second degree (row-column)")
    kp_embedding_type: str = spec("none", choices=KINDS, help="kernel parallelism of the embedding")
    kp_embedding_1: int = _degree("its first degree")
    kp_embedding_2: int = _degree("its second degree (row-column)")
    kp_projection_type: str = spec("none", choices=KINDS, help="kernel parallelism of the projection")
    kp_projection_1: int = _degree("its first degree")
    kp_projection_2: int = _degree("its second degree (row-column)")
    chips: int = spec(512, minimum=1, maximum=4096, help="chips that the table of plans may use")
    target_batch: int = spec(32, minimum=1, maximum=10**7, help="batch of the one-day target behind time_per_step")


def model_of(i: Inputs) -> Lstm:
    """The language model of these inputs."""
    return Lstm(**{f.name: getattr(i, f.name) for f in fields(Lstm)})


def technology_of(i: Inputs) -> Technology:
    """The technology of these inputs."""
    return Technology(**{f.name: getattr(i, f.name) for f in fields(Technology)})


def plan_of(i: Inputs) -> LstmPlan:
    """The plan of these inputs; raises InputProblems for degrees without a type."""
    problems, splits = [], {}
    for part in ("hidden", "softmax", "embedding", "projection"):
        kind, first, second = (getattr(i, f"kp_{part}_{field}") for field in ("type", "1", "2"))
        if kind == "none" and first * second > 1:
            remedy = "Choose row-column or column-row, or set both degrees to 1."
            message = f"is none, but the degrees are {first} and {second}"
            problems.append(Problem(field=f"kp_{part}_type", message=message, remedy=remedy))
        splits[part] = split_of(kind, first, second)
    if problems:
        raise InputProblems(problems)
    return LstmPlan(dp=i.dp, lp=i.lp, hlp=i.hlp, **splits)


def machine_of(i: Inputs, plan: LstmPlan) -> Machine:
    """The machine of these inputs, its link power spread over the links that the plan needs."""
    return machine(technology_of(i), ring_links(*plan.rings))


def rates_of(i: Inputs, m: Machine, *, mode: str | None = None) -> Rates:
    """Levels and rates of the machine; raises InputProblems where the tiles that were asked for do not fit."""
    mode = mode or i.mode
    tiles: tuple[Number, Number] = (
        chosen_tile(i.l2_tile, _number(m.l2_bytes), i.element_bytes, "l2_tile"),
        chosen_tile(i.shared_tile, _number(m.shared_bytes), i.element_bytes, "shared_tile"),
    )
    return rates(m, i.element_bytes, mode=mode, tiles=tiles, register_tile=i.register_tile if mode == "bound" else 0)


def is_reference(i: Inputs) -> bool:
    """Whether these are the reference's inputs, apart from those that its figures do not depend on."""
    default = Inputs()
    free = ("chips", "register_tile", "link_j_per_bit", "link_latency_s")
    return all(getattr(i, f.name) == getattr(default, f.name) for f in fields(Inputs) if f.name not in free)


def _number(value: Number) -> float:
    assert isinstance(value, (int, float))
    return float(value)
