"""A link that names what the catalogue has not: a short refusal with the nearest names, and no list of all."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("name", "remedy"), [("llama3-8bb", "Did you mean llama3-8b"), ("nomodel", "Choose one of the list")]
)
def test_an_unknown_model_is_refused_in_a_sentence(visit, name, remedy):
    page = visit(f"/?model={name}", refusals=(422,))
    alerts = page.get_by_role("alert").filter(has_text=f"'{name}' is not in the catalogue of models")
    expect(alerts.first).to_contain_text(remedy)
    assert max(len(text) for text in alerts.all_inner_texts()) < 250
    # nothing is on its way, so that nothing keeps a place for it
    expect(page.locator("#explore main .card:visible")).to_have_count(0)
