"""On a machine that others use, the printed address opens the page, and without its token nothing does."""

from __future__ import annotations

import os

import pytest

from tests.browser.looking import wait_for_figures
from tests.browser.server import Server

pytestmark = pytest.mark.browser


@pytest.fixture
def shared(tmp_path):
    """A server where somebody else is logged in."""
    who = tmp_path / "bin" / "who"
    who.parent.mkdir()
    who.write_text("#!/bin/sh\necho 'nobody pts/0 2026-11-20 10:00 (10.0.0.7)'\n")
    who.chmod(0o755)
    environment = {"PATH": f"{who.parent}:{os.environ['PATH']}"}
    found = Server(tmp_path / "data", environment=environment)
    yield found
    found.stop()


def test_the_printed_address_opens_the_page_and_others_are_kept_out(open_page, shared):
    assert "others use this machine: nobody" in "".join(shared.said)
    assert shared.opening.startswith(f"{shared.url}/?token=")
    out = open_page("/", url=shared.url, refusals=(401,))
    assert "needs its token" in out.content()
    page = open_page(shared.opening.removeprefix(shared.url), url=shared.url)
    wait_for_figures(page)
    assert "token" not in page.url
    page.reload()
    wait_for_figures(page)
    (cookie,) = page.context.cookies(shared.url)
    assert cookie["name"] == f"headroom_{shared.port}"
    assert cookie["value"] not in shared.opening
