"""Values: what a program reads of whole numbers is right where it is known, balanced where it was chosen."""

import json
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"


def test_what_a_program_reads_of_whole_numbers(traced, tmp_path):
    traced(PROGRAMS / "numbers.py", "--", str(tmp_path / "said.json"))
    assert json.loads((tmp_path / "said.json").read_text()) == {
        "sent": [4, 2, 3],
        "view": [2, 3],
        "later": [3, 1, 2],
        "total": 9,
        "overwritten": [1, 1, 1],
        "counts": [3] * 8,
        "twice": 0,
        "first three of a sort": [3] * 8,
        "drawn": [1, 2],
        "rows": [3, 4],
        "masked": False,
        "kept": 16 * 1024,
        "host": [[0, 0], [0, 1], [1, 0]],
        "equal": [True, False, False],
        "infinite": 0,
        "listed": [[3, 5], [4, 6]],
        "close": [True, False],
        "inference": [[[7]], True],
        "masks of now": [sum(41 - max(row - 5, 0) for row in range(37)), 0],
    }
