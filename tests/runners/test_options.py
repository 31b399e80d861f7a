"""Options of a job: refused with a remedy where they are wrong."""

from __future__ import annotations

import pytest

from estimator.scenario.problems import InputProblems
from runners.options import options_of


@pytest.mark.parametrize(
    ("benchmark", "values", "message"),
    [
        ("collectives", {"kinds": ["all-reduse"]}, "options.kinds: 'all-reduse' is not known. Did you mean"),
        ("collectives", {"sizes_bytes": [0]}, "options.sizes_bytes: 0 is out of range"),
        ("collectives", {"colour": 1}, "options.colour: unknown key"),
        ("memory", {"limit_s": 0}, "options.limit_s: 0 is out of range"),
        ("attention", {"dims": [16, "abc"]}, "options.dims[1]: 'abc' is not a whole number. Give a whole number."),
        ("ulysses", {"heads": "abc"}, "options.heads: 'abc' is not a whole number. Give a whole number."),
        ("collectives", {"sizes_bytes": ["1KB"]}, "options.sizes_bytes[0]: '1KB' is neither a whole number nor a size"),
        ("collectives", {"sizes_bytes": ["1e999GiB"]}, "options.sizes_bytes[0]: '1e999GiB' is neither"),
        ("collectives", {"kinds": "all-reduce"}, "options.kinds: must be a list"),
        ("memory", {"micro_batch": "0"}, "options.micro_batch: 0 is out of range"),
        ("memory", "all", "options: must be a JSON object"),
        ("sort", {"any": 1}, "options.any: unknown key"),
    ],
)
def test_bad_options_name_field_and_remedy(benchmark, values, message):
    with pytest.raises(InputProblems) as refused:
        options_of(benchmark, values)
    assert message in str(refused.value)
