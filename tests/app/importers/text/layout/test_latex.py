from __future__ import annotations

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


@pytest.mark.parametrize(
    "text", [r"\begin{tabular}{l}", r"\begin{tabular}{ll} a & b \\ \end{tabular}", "a & b \\\\", r"\begin{table}"]
)
def test_what_is_no_table(text):
    assert read(text.splitlines(), 0) is None
