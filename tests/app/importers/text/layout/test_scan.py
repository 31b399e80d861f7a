from __future__ import annotations

import time

from app.importers.text.layout.document import Fields, Table, label, place
from app.importers.text.layout.lines import LONGEST
from app.importers.text.layout.scan import scan

TEXT = """\
# Results

## (a)

compiled
Seq  ms
---------
128  1.5
256  2.5
xl ran out of memory

```python
# not a heading
x  ms
1  2.0
2  3.0
```

# Second
====
Block title
====
Mean: 1 ms
Max: 2 ms
"""


def test_blocks_with_their_surroundings():
    first, second, third = scan(TEXT).blocks
    assert isinstance(first, Table)
    assert first.around.heading == ("Results", "(a)")
    assert first.around.labels == ("compiled",)
    assert first.around.before == ("compiled",)
    assert first.around.after[0] == "xl ran out of memory"
    assert second.around.heading == ("Results", "(a)")
    assert isinstance(third, Fields)
    assert third.title == "Block title"
    assert label(third) == "Second"
    assert place(third) == "line 23 (Second)"


def test_long_lines_are_passed_over():
    document = scan("a" * (LONGEST + 1) + "\nx  ms\n1  2.0\n2  3.0\n")
    assert document.long_lines == 1
    assert len(document.blocks) == 1


def test_hostile_text_takes_no_longer_than_its_length():
    for line in (
        "a: b",
        "a,b",
        "x  y",
        "| a |",
        "min 1 mean 2 max",
        "1 2 3",
        "a" * 5000,
        "%" * 5000,
        "(" * 5000,
        "1," * 2500,
    ):
        start = time.process_time()
        scan("\n".join([line] * 800))
        assert time.process_time() - start < 2, line[:20]
