"""Laws of kernel, data and layer parallelism of the LSTM: work and memory are conserved, pipelines are bounded."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.studies.deepflow.kernel_split import KernelSplit, backward_activations, backward_weights, forward
from estimator.studies.deepflow.lstm import Lstm, Product
from estimator.studies.deepflow.lstm_memory import PARTS, requirement, total
from estimator.studies.deepflow.lstm_plan import LstmPlan, replica
from estimator.studies.deepflow.lstm_price import rates
from estimator.studies.deepflow.lstm_step import recurrent, softmax, step, waves_s
from estimator.studies.deepflow.technology import Technology, machine

POWERS = st.integers(0, 6).map(lambda power: 2**power)
SIZES = st.integers(1, 40).map(lambda many: 64 * 64 * many)
SPLITS = st.one_of(
    st.just(KernelSplit()),
    POWERS.map(lambda d: KernelSplit(kind="column-row", first=d)),
    st.tuples(POWERS, POWERS).map(lambda d: KernelSplit(kind="row-column", first=d[0], second=d[1])),
)
PRODUCTS = st.builds(Product, name=st.just("C"), a=SIZES, b=SIZES, c=SIZES)
MODEL = Lstm(batch=4096, vocab=64 * 512, layers=4, hidden=4096, projection=512, sequence=4)
LINKED = rates(machine(Technology(), links=4), 4)


def cuts_of(product, split):
    return (
        forward(product, split), backward_weights(product, split, "w"), backward_activations(product, split, "a")
    )  # fmt: skip


@given(PRODUCTS, SPLITS)
def test_flops_of_all_processors_are_those_of_the_whole(product, split):
    whole = 2 * product.a * product.b * product.c
    for cut in cuts_of(product, split):
        assert sum(2 * p.a * p.b * p.c for p in cut.products) * split.degree == whole


@given(PRODUCTS, SPLITS)
def test_no_processor_sends_more_words_than_the_tensor_and_none_alone_sends_any(product, split):
    for cut in cuts_of(product, split):
        assert all(0 < move.sent_words < move.words for move in cut.collectives)
        if split.degree == 1:
            assert cut.collectives == ()


@given(PRODUCTS, POWERS)
def test_column_row_volumes_do_not_depend_on_the_width_that_is_cut(product, d):
    split = KernelSplit(kind="column-row", first=d)
    wider = replace(product, b=4 * product.b)
    for one, other in zip(cuts_of(product, split), cuts_of(wider, split), strict=True):
        assert [move.sent_words for move in one.collectives] == [move.sent_words for move in other.collectives]


def flops_of(component):
    return sum(2 * p.product.a * p.product.b * p.product.c for p in component.products) + (
        component.pointwise.pointwise.flops if component.pointwise else 0
    )


@given(SPLITS)
def test_components_share_products_and_pointwise_work(split):
    for whole, shard in zip(recurrent(MODEL, LINKED, KernelSplit()), recurrent(MODEL, LINKED, split), strict=True):
        assert flops_of(shard) * split.degree == pytest.approx(flops_of(whole), rel=1e-12)
    width = MODEL.hidden
    for whole, shard in zip(
        softmax(MODEL, LINKED, KernelSplit(), width), softmax(MODEL, LINKED, split, width), strict=True
    ):
        assert flops_of(shard) * split.degree == pytest.approx(flops_of(whole), rel=1e-12)


@given(POWERS)
def test_replicas_share_the_batch(dp):
    whole = recurrent(MODEL, LINKED, KernelSplit())[0].products[0].product
    shard = recurrent(replica(MODEL, dp), LINKED, KernelSplit())[0].products[0].product
    assert shard.a * dp == whole.a


@given(SPLITS, st.sampled_from([1, 2, 4]))
def test_activations_and_cut_weights_add_up_to_the_whole(split, stages):
    whole = requirement(MODEL)
    shard = requirement(MODEL, dict.fromkeys(PARTS, split), stages=stages)
    for part in PARTS:
        groups = stages if part == "hidden" else 1
        assert shard[part].activations_bytes * split.degree * groups == pytest.approx(whole[part].activations_bytes)
        assert shard[part].pointwise_bytes * split.degree * groups == pytest.approx(whole[part].pointwise_bytes)
        # rows of the batch repeat the weights
        copies = split.degree / split.rows * groups
        assert shard[part].weights_bytes * copies == pytest.approx(whole[part].weights_bytes)
    assert total(whole).bytes == pytest.approx(sum(held.bytes for held in whole.values()))


@given(st.floats(1e-6, 10), st.floats(0, 10), st.sampled_from([1, 2, 4]), st.integers(1, 50))
def test_a_pipeline_is_bounded_by_its_work_and_its_fill(cell_s, hand_over_s, stages, steps):
    alone = waves_s(cell_s, 0.0, 4, 1, steps)
    assert alone == pytest.approx(4 * steps * cell_s)
    free = waves_s(cell_s, 0.0, 4, stages, steps)
    assert free == pytest.approx((steps + stages - 1) * 4 / stages * cell_s)
    assert waves_s(cell_s, hand_over_s, 4, stages, steps) >= free - 1e-9


@given(POWERS, SPLITS, st.sampled_from([1, 2, 4]))
def test_more_processors_never_do_better_than_linear(dp, split, stages):
    alone = step(MODEL, LINKED).seconds
    plan = LstmPlan(dp=dp, lp=stages, hlp=stages, hidden=split, softmax=split, embedding=split, projection=split)
    shared = step(MODEL, LINKED, plan).seconds
    # Smaller products have fewer loop FLOPs and shorter launches do not exist: only the first can gain, a little.
    assert shared * plan.chips >= 0.95 * alone
