from __future__ import annotations

import itertools
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.importers.json_scan import array_end, cut_off, keys, objects, opening
from tests.odd_json import documents

JSON = documents()


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b'{"a": 1}', "{"),
        (b' \n[ {"a": 1}]', "["),
        (b"[]", "["),
        (b"\xef\xbb\xbf{}", "{"),
        (b"[[1]]", "["),
        (b"[WARNING] few GPUs", ""),
        (b"[1,0]<stdout>: x", ""),
        (b"{'a': 1}", ""),
        (b"text {", ""),
    ],
)
def test_opening(head, found):
    assert opening(head) == found


@given(st.dictionaries(st.text(max_size=6), JSON, max_size=5), st.sampled_from([None, 1]))
def test_keys_of_the_outer_object(document, indent):
    text = json.dumps(document, indent=indent).encode()
    found = list(keys(text))
    assert [json.loads(f'"{key}"') for key, _ in found] == list(document)
    for (_, after), value in zip(found, document.values(), strict=True):
        assert json.JSONDecoder().raw_decode(text.decode(), after + (text[after : after + 1] == b" "))[0] == value


@given(st.lists(JSON, max_size=5))
def test_the_end_of_an_array(items):
    text = json.dumps(items)[1:].encode() + b', "more": []}'
    assert array_end(text) == len(json.dumps(items)) - 2


@given(st.lists(st.dictionaries(st.text(max_size=4), JSON, max_size=3), max_size=5), st.integers(0, 40))
def test_whole_objects_before_a_cut(items, cut):
    text = json.dumps(items)[1:-1].encode()
    assert [json.loads(one) for one in objects(text)] == items
    part = text[: max(0, len(text) - cut)]
    assert [json.loads(one) for one in objects(part)] == items[: len(list(objects(part)))]


@given(st.dictionaries(st.text(max_size=6), JSON, max_size=5), st.integers(1, 40))
def test_what_is_cut_off_is_told_from_what_is_whole(document, cut):
    text = json.dumps(document).encode()
    assert not cut_off(text)
    assert cut_off(text[: max(1, len(text) - cut)])


def test_keys_of_the_first_object_of_a_list():
    assert [key for key, _ in keys(b'[{"ph": {"x": 1}, "ts": 2}, {"other": 3}]', 2)] == ["ph", "ts"]


@pytest.mark.parametrize(
    "hostile", [b'"' + b'\\"' * 500_000, b'"\\' * 500_000, b"[" * 1_000_000, b'{"a":' * 200_000, b'"' * 999_999]
)
def test_hostile_bytes_take_linear_time(hostile):
    start = time.process_time()
    for found in (keys(hostile), objects(hostile)):
        for _ in itertools.islice(found, 10_000):
            pass
    array_end(hostile)
    cut_off(hostile)
    assert time.process_time() - start < 10
