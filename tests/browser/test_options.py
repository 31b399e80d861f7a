"""Options of a benchmark as typed and as a job holds them: the page's pure module, run in the browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.browser


@pytest.fixture
def call(open_page) -> Callable[..., Any]:
    page = open_page("/?view=studies")
    code = "async ([name, args]) => (await import(js('options')))[name](...args)"
    return lambda name, *arguments: page.evaluate(code, [name, list(arguments)])


def test_an_option_is_read_as_a_job_holds_it(call):
    def read(kind, text, several=True):
        return call("readOption", {"name": "x", "type": kind, "list": several}, text)

    assert read("integer", "64, 128,") == [64, 128]
    assert read("integer", "4KiB,x") == ["4KiB", "x"], "the server reads sizes, and says what is none"
    assert read("integer", " ") is None
    assert read("number", "2.5", several=False) == 2.5
    assert read("text", "naive, pp:1f1b:8") == ["naive", "pp:1f1b:8"]
    assert call("defaultText", {"default": [64, 128]}) == "64, 128"
    assert call("defaultText", {"default": []}) == "default"


def test_problems_of_an_option_are_also_those_of_its_items(call):
    problems = [{"field": name} for name in ("options.dims[1]", "options.dims", "options.dims_more", "world_size")]
    assert call("problemsOf", "dims", problems) == problems[:2]
