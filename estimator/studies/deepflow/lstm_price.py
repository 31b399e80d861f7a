"""Prices of what an LSTM step is made of: products in both loop orders, pointwise work, updates, collectives."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.cost.cache_roofline import Cost, Level, combined_s, loop_flops, product, tile_edge
from estimator.scenario.arrays import maximum, minimum, where
from estimator.scenario.units import Number
from estimator.studies.deepflow import lstm
from estimator.studies.deepflow.kernel_split import KernelCollective, alone
from estimator.studies.deepflow.lstm import Pointwise, Product
from estimator.studies.deepflow.technology import Machine


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What prices an operation: levels from memory inwards, reachable FLOP/s, one link, the mode of the roofline."""

    levels: tuple[Level, ...]
    flops_per_s: Number
    element_bytes: Number
    launch_s: Number
    link_bytes_per_s: Number = 0.0
    link_latency_s: Number = 0.0
    mode: str = "compatible"

    @property
    def memory(self) -> Level:
        """The farthest level."""
        return self.levels[0]


@dataclass(frozen=True, kw_only=True)
class PricedProduct:
    """A product in both loop orders, (a, b, c) and (c, b, a); the faster counts, launch included."""

    product: Product
    as_is: Cost
    transposed: Cost
    seconds: Number


@dataclass(frozen=True, kw_only=True)
class PricedPointwise:
    """Pointwise work and its time, launches included."""

    pointwise: Pointwise
    seconds: Number


@dataclass(frozen=True, kw_only=True)
class Update:
    """Application and clipping of one part's gradients, after they were summed over the data-parallel replicas."""

    apply: PricedPointwise
    clip: PricedPointwise
    reduce_s: Number = 0.0

    @property
    def seconds(self) -> Number:
        """All three."""
        return self.reduce_s + (self.apply.seconds + self.clip.seconds)


def rates(m: Machine, element_bytes: Number, *, mode: str = "compatible", tiles: tuple[Number, Number] | None = None,
          register_tile: Number = 0) -> Rates:  # fmt: skip
    """Levels of a machine from technology: memory feeds tiles in L2, L2 tiles in shared memory, and that registers.

    The reference never times shared memory; it takes part where ``register_tile`` is given.
    """
    l2, shared = tiles or (tile_edge(m.l2_bytes, element_bytes), tile_edge(m.shared_bytes, element_bytes))
    levels: tuple[Level, ...] = (
        Level(name="memory", bytes_per_s=m.memory_bytes_per_s, tile=l2, latency_s=m.memory_latency_s),
        Level(name="L2", bytes_per_s=m.l2_bytes_per_s, tile=shared),
    )
    if register_tile:
        levels += (Level(name="shared memory", bytes_per_s=m.shared_bytes_per_s, tile=float(register_tile)),)
    return Rates(
        levels=levels, flops_per_s=m.flops_per_s, element_bytes=element_bytes, launch_s=m.launch_s,
        link_bytes_per_s=m.link_bytes_per_s, link_latency_s=m.link_latency_s, mode=mode,
    )  # fmt: skip


def price_product(p: Product, r: Rates) -> PricedProduct:
    """Cost of one product in its two loop orders; the first where they tie."""
    tile = r.levels[1].tile

    def cost(a: Number, b: Number, c: Number) -> Cost:
        return product(
            a, b, c,
            levels=r.levels, flops_per_s=r.flops_per_s, element_bytes=r.element_bytes, mode=r.mode,
            flops=loop_flops(a, b, c, tile),
        )  # fmt: skip

    as_is, transposed = cost(p.a, p.b, p.c), cost(p.c, p.b, p.a)
    seconds = minimum(as_is.seconds + r.launch_s, transposed.seconds + r.launch_s)
    return PricedProduct(product=p, as_is=as_is, transposed=transposed, seconds=seconds)


def price_pointwise(p: Pointwise, r: Rates) -> PricedPointwise:
    """Roofline of memory alone, plus its launches."""
    level_s = (p.bytes / r.memory.bytes_per_s,)
    seconds = combined_s(p.flops, p.bytes, level_s, r.memory, r.flops_per_s, r.mode)
    return PricedPointwise(pointwise=p, seconds=seconds + p.launches * r.launch_s)


def price_update(name: str, elements: Number, r: Rates, replicas: int = 1) -> Update:
    """Sum of a part's gradients over the replicas, their application and clipping."""
    reduce = KernelCollective(name=f"{name} gradients", kind="all-reduce", ranks=replicas, words=elements)
    return Update(
        apply=price_pointwise(lstm.update(name, elements, r.element_bytes), r),
        clip=price_pointwise(lstm.clipping(name, elements, r.element_bytes), r),
        reduce_s=0.0 if alone(replicas) else collective_s(reduce, r),
    )


def embedding_s(bytes: Number, r: Rates) -> Number:
    """Look-up or its gradient: bytes / bandwidth + latency + launch."""
    return bytes / r.memory.bytes_per_s + r.memory.latency_s + r.launch_s


def transfer_s(words: Number, r: Rates) -> Number:
    """One message over one link: p·words / bandwidth + latency."""
    return words * r.element_bytes / r.link_bytes_per_s + r.link_latency_s


def collective_s(c: KernelCollective, r: Rates) -> Number:
    """Ring of P processors: P − 1 messages (2(P − 1) for an all-reduce), a sum and a launch after each that reduces.

    One message holds what a rank sends over the number of messages; a sum is one FLOP on three accesses per word.
    """
    steps = c.ranks - 1
    messages = maximum({"all-reduce": 2 * steps, "shift": 1}.get(c.kind, steps), 1)
    seconds = messages * transfer_s(c.sent_words / messages, r)
    if c.kind in ("all-reduce", "reduce-scatter"):
        share = c.words / c.ranks
        add = Pointwise(name=c.name, flops=share, bytes=3 * r.element_bytes * share, launches=1)
        seconds = seconds + steps * price_pointwise(add, r).seconds
    return where(c.ranks > 1, seconds, 0.0)
