"""The model that a profile proposes: read off the widths of its products and the parameters that were counted."""

from __future__ import annotations

import pytest

from tests.estimator.scenario.made_profiles import NETWORK, TABLE, Q, kernel, made, of_widths


def test_classes_of_pictures_are_no_vocabulary():
    attention = kernel("aten::_scaled_dot_product_flash_attention", Q, Q, Q, is_causal=False)
    products = [kernel("aten::mm", (32, a), (a, b)) for a, b in ((512, 1536), (512, 512), (512, 2048), (2048, 512))]
    for rows, is_sure in ((2, False), (32, True)):
        loss = kernel("aten::nll_loss_forward", (rows, 100), (rows,))
        found = made(attention, *products, loss)
        assert (found.fields["model.vocab"].value, found.fields["model.vocab"].sure) == (100, is_sure)
        assert any("works on samples (as pictures) of 16 positions" in note for note in found.notes) is not is_sure


@pytest.mark.parametrize("bias", [True, False])
def test_linears_of_inference_mode_say_whether_they_add_a_bias(bias):
    attention = kernel("aten::_scaled_dot_product_flash_attention", Q, Q, Q, is_causal=True)
    widths = ((512, 1536), (512, 512), (512, 2048), (2048, 512))
    products = [kernel("aten::linear", (2, 16, a), (b, a), *([(b,)] if bias else [])) for a, b in widths]
    found = made(TABLE, attention, *products).fields
    assert (found["model.bias"].value, found["model.ffn"].value) == (bias, 2048)


def test_parameters_that_no_table_explains_are_said():
    attention = kernel("aten::_scaled_dot_product_flash_attention", Q, Q, Q, is_causal=True)
    widths = ((512, 1536), (512, 512), (512, 2048), (2048, 512), (512, 100))
    products = [kernel("aten::mm", (32, a), (a, b)) for a, b in widths]
    one, far = (made(TABLE, attention, *products, parameters=count) for count in (3_200_000, 9_000_000))
    assert ["neither is near" in found.fields["model.tied_embedding"].evidence for found in (one, far)] == [False, True]


@pytest.mark.parametrize(
    ("products", "heads", "is_sure"),
    [
        ([(512, 512)] * 4, 8, True),
        ([(512, 512)] * 3, 4, False),  # queries, keys with values, output
        ([(512, 512), (512, 256), (512, 512)], 2, False),
        ([(512, 512), (512, 128), (512, 512)], 1, False),
        ([(512, 512), (512, 256), (512, 256), (512, 512)], 4, True),
        ([(512, 512), (512, 96), (512, 512)], 8, False),  # no whole heads
    ],
)
def test_keys_and_values_of_one_product_are_not_taken_for_as_wide_as_the_queries(products, heads, is_sure):
    found = of_widths(*products, *NETWORK).fields["model.kv_heads"]
    assert (found.value, found.sure) == (heads, is_sure)


def test_parameters_that_the_scenario_s_model_does_not_have_are_noted():
    def notes(count: int) -> list[str]:
        found = of_widths(*[(512, 512)] * 4, *NETWORK, parameters=count)
        return [one for one in found.notes if "gradients are kept" in one]

    tied = 4 * 512**2 + 2 * 512 * 2048 + 100 * 512
    assert notes(tied) == []
    (said,) = notes(tied - 512 * 512)
    assert "263,680 more than the 2,934,784" in said


def test_a_slice_of_a_parameter_that_is_added_to_the_tokens_may_be_learned_positions():
    attention = kernel("aten::_scaled_dot_product_flash_attention", Q, Q, Q, is_causal=True)
    products = [kernel("aten::mm", (32, a), (a, b)) for a, b in NETWORK]
    bias, places = (kernel("aten::add", (2, 16, 512), other) for other in ((2, 16, 512), (16, 512)))
    none, found = (made(TABLE, attention, *products, one).fields["model.position"] for one in (bias, places))
    assert (none.value, none.sure) == ("none", True)
    assert (found.value, found.sure) == ("learned", False)


PLAIN, GATED = False, True


@pytest.mark.parametrize(
    ("attention", "network", "gated", "is_sure"),
    [
        ([(512, 1536)], [(512, 1536), (1536, 512)], PLAIN, True),  # queries, keys and values as wide as the network
        ([(512, 1536)], [(512, 1536)] * 2 + [(1536, 512)], GATED, True),
        ([(512, 1536)], [(512, 1536), (768, 512)], GATED, True),  # gate and up in one product
        ([(512, 1536)], [(512, 768), (768, 512)], PLAIN, False),  # or 768 makes 8 + 2·2 heads, gated
        ([(512, 512), (512, 1024)], [(512, 1024), (1024, 512)], PLAIN, True),
        ([(512, 512)] * 3, [(512, 2048)] * 2 + [(2048, 512)], GATED, True),
        ([(512, 512), (512, 128), (512, 128)], [(512, 128), (128, 512)], PLAIN, False),  # or keys with values, gated
        ([(512, 640)], [(512, 640), (640, 512)], PLAIN, True),  # one head of keys for eight of queries
    ],
)
def test_products_of_attention_are_none_of_the_network_s(attention, network, gated, is_sure):
    found = of_widths(*attention, (512, 512), *network, (512, 100)).fields
    assert (found["model.gated_ffn"].value, found["model.gated_ffn"].sure) == (gated, is_sure)


def test_a_network_as_wide_as_attention_s_product_has_the_parameters_that_were_counted():
    products = ((512, 1536), (512, 512), (512, 1536), (1536, 512), (512, 100))
    found = of_widths(*products, parameters=sum(a * b for a, b in products) + (100 + 3) * 512)
    assert found.notes == of_widths(*products).notes
    assert (found.fields["model.tied_embedding"].value, found.fields["model.tied_embedding"].sure) == (False, True)
    assert "1 of the 2" in found.fields["model.gated_ffn"].evidence
