"""Following a recipe of CONTRIBUTING.md: its blocks, copies of folders to write them into, and Python run in those."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.markdown import blocks

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "CONTRIBUTING.md"
SCENARIO = {
    "model": "gpt2",
    "cluster": {"chip": "a100-80gb-sxm", "chips_per_node": 1},
    "plan": {"micro_batch": 8},
    "training": {"seq_len": 1024, "global_batch": 8, "precision": "bf16"},
}


def block(info: str) -> str:
    (found,) = blocks(RECIPES, info)
    return found.text


def section(title: str) -> str:
    return RECIPES.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]


def with_loss_chunks(place: Path, *folders: str) -> None:
    """Copy folders and follow the recipe for a parameter of the plan in them."""
    copy_folders(place, *folders)
    estimator = place / "estimator"
    last = (
        '    placement: str = spec("tp-cp-dp-pp", choices=PLACEMENTS, help="axes from neighbouring chips outwards")\n'
    )
    add(estimator / "scenario" / "plan.py", last, textwrap.indent(block("python plan"), "    "))
    sizes = estimator / "operations" / "rank_sizes.py"
    add(sizes, "    recompute: str\n", textwrap.indent(block("python rank_sizes RankSizes"), "    "))
    add(sizes, "        recompute=plan.recompute,\n", "        " + block("text rank_sizes rank_sizes").strip() + ",\n")
    formula = textwrap.indent(block("python activations"), "    ")
    activations = estimator / "memory" / "activations.py"
    add(activations, "    count = d.tokens * d.vocab\n", formula)
    activations.write_text(activations.read_text().replace("    count = d.tokens * d.vocab\n", ""))
    axis = estimator / "search" / "axis.py"
    add(axis, "\nAXIS_FIELDS = (", block("text AXIS_FIELDS").strip() + ", ")
    add(axis, "        return CHOICES[field]\n", textwrap.indent(block("python axis values"), "    "))
    if "static" in folders:
        script = place / "static" / "js"
        add(script / "fieldLabels.js", "const LABELS = {", block("text fieldLabels.js").strip() + ",")
        add(script / "views" / "explore" / "plan.js", "const folded = [", block("text plan.js").strip() + ",")


def with_bandwidth(place: Path) -> None:
    """Follow the recipe for a figure in a copy of the page."""
    script = place / "static" / "js"
    (script / "figures" / "bandwidth.js").write_text(block("js static/js/figures/bandwidth.js"))
    explore = script / "views" / "explore" / "explore.js"
    for behind, info, indent in (
        ('import { HEIGHT_PX, roofline } from "../../figures/roofline.js";\n', "import", ""),
        ("  const time = createTimeline({ name });\n", "card", "  "),
        ("    time.element,\n", "content", "    "),
        ("    drawRoofline();\n    time.update();\n", "drawRest", "    "),
    ):
        add(explore, behind, textwrap.indent(block(f"js explore.js {info}"), indent))


def copy_folders(place: Path, *folders: str) -> None:
    for folder in folders:
        shutil.copytree(ROOT / folder, place / folder)  # with what is compiled, which holds as times are kept


def add(path: Path, behind: str, text: str) -> None:
    before = path.read_text(encoding="utf-8")
    assert before.count(behind) == 1
    path.write_text(before.replace(behind, behind + text), encoding="utf-8")


def run_python(place: Path, *arguments: str) -> str:
    """Run Python in a folder, where it finds the copies and not this checkout; return what it printed."""
    environment = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE")}
    environment["PYTHONPATH"] = str(place)
    done = subprocess.run(
        [sys.executable, *arguments], cwd=place, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
