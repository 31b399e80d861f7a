from __future__ import annotations

import time

import pytest

from app.importers.text.layout.latex import read

TWO_HEADERS = r"""\begin{tabular}{l c cc}
\hline
\multirow{2}{*}{\textbf{Model}} & \multirow{2}{*}{GPUs} & \multicolumn{2}{c}{FSDP} \\
\cmidrule(lr){3-4}
 & & step (ms) & GB \\ % a remark & no cell
\midrule
\multirow{2}{*}{Llama-3-8B} & 8 & 1{,}204.5 $\pm$ 3 & 61.2 \\
 & 16 & \textbf{701} & OOM \\ \bottomrule
\end{tabular}"""


def test_spanning_headers_falling_cells_and_signs():
    table, after = read(TWO_HEADERS.splitlines(), 0)
    assert table.columns == ("Model", "GPUs", "FSDP step (ms)", "FSDP GB")
    assert table.rows == (("Llama-3-8B", "8", "1204.5 ± 3", "61.2"), ("Llama-3-8B", "16", "701", "OOM"))
    assert (table.lines, after) == ((7, 8), 9)


def test_a_cell_of_several_lines_is_one_and_a_row_may_take_several():
    text = r"""\begin{tabular}{l@{\,}rr} Model & \begin{tabular}[c]{@{}c@{}}Step time\\ (ms)\end{tabular}
& \makecell[c]{Batch\\size} \\ \hline
gpt2 & 12.5
& 8 \\
gpt2-medium & 30.1 & 8 \end{tabular}"""
    table, after = read(text.splitlines(), 0)
    assert table.columns == ("Model", "Step time (ms)", "Batch size")
    assert table.rows == (("gpt2", "12.5", "8"), ("gpt2-medium", "30.1", "8"))
    assert (table.lines, after) == ((3, 5), 5)


def test_what_does_not_end_is_left_at_once():
    begins = ["\\begin{tabular}{ll}"] * 20_000
    endless = [begins[0], *["a & " + "b" * 400] * 4_000, "\\end{tabular}"]
    begin_s = time.process_time()
    assert all(read(begins, at) is None for at in range(len(begins)))
    assert read(endless, 0) is None  # a row of all lines, and no second one
    assert time.process_time() - begin_s < 2.0


@pytest.mark.parametrize(
    "text", [r"\begin{tabular}{l}", r"\begin{tabular}{ll} a & b \\ \end{tabular}", "a & b \\\\", r"\begin{table}"]
)
def test_what_is_no_table(text):
    assert read(text.splitlines(), 0) is None
