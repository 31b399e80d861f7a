"""First lines: what a loop's log says of its run before its first step, in names and values or in a sentence.

``model: gpt2-medium | bs 32 | block 1024 | world size 8 | device NVIDIA A100-SXM4-80GB | DDP``, ``Training gpt2-xl with
DDP on 4x H100 80GB, global batch 16, seq 1024``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from app.importers.text.nvidia_smi import WORKED
from app.importers.text.trainers.log import BUSY_GPUS, CPU
from app.importers.text.values import meaning, sizes
from app.importers.text.values.chip_names import gpus_said, spoken
from app.importers.text.values.figures import count
from app.importers.text.values.layouts import degrees_said, sharding_said
from app.importers.text.values.models import model_of
from estimator.validation.spellings import precision_of, sharding_of

_MOST_LINES, _LONGEST_LINE, _FEWEST = 200, 400, 2
_PLAIN = re.compile(r"[A-Za-z][\w -]{0,40}")
_LETTERS = 2
"""What is no longer is no word of a sentence: ``ac`` is a column's name alone."""
_COUNTS: Mapping[str, Iterable[str]] = {
    "global_batch_size": meaning.GLOBAL_BATCH,
    "per_device_batch_size": meaning.GPU_BATCH,
    "micro_batch_size": meaning.MICRO_BATCH,
    "batch": {"batch"},
    "batch_size": meaning.BATCH - {"batch"},
    "gradient_accumulation_steps": meaning.ACCUMULATION,
    "seq_len": {*meaning.SEQ_LEN, "block", "block_size"},
    "world_size": meaning.GPUS,
    **{name: {*meaning.DEGREES[name]} for name in ("tp", "pp", "cp")},
    **{names[0]: names for names in sizes.NAMES.values()},
}
"""Settings that are whole numbers, by the names that they go by."""
_NAME_OF = {name: setting for setting, names in _COUNTS.items() for name in names if len(name) > 1}
_COUNT = re.compile(
    r"(?<![\w/.-])("
    + "|".join(re.escape(name).replace("_", "[ _-]") for name in sorted(_NAME_OF, key=lambda one: (-len(one), one)))
    + r")\s{0,2}[:= ]\s{0,2}(\d[\d,]{0,11})(k)?(?![\w.])(\s{0,2}(?:/|per)\s{0,2}(?:gpu|device|rank))?",
    re.IGNORECASE,
)
_BUSY = re.compile(rf"^{re.escape(WORKED)}(\d{{1,5}})$")
_PARAMETERS = re.compile(r"\b(?:n_|num_)?param(?:eter)?s?\s?[:=]\s?([\d.,]{1,20}[KMB]?)\b", re.IGNORECASE)
_CPU = re.compile(
    r"^(?!.*\boffload(?![\w ]{0,20}[:= ]\s?(?:none|no|not|null|false|off|0)\b)).*\bdevice\s?[:= ]\s?cpu\b",
    re.IGNORECASE,
)
"""On what it ran; states that are offloaded are on a CPU as well, unless the line says that none are."""
_MODEL = re.compile(r"\bmodel(?:_name|_name_or_path)?\s?[:=]\s?([\w./-]{1,80})(?![\w./-]|\s?[:=])", re.IGNORECASE)
"""Not ``model: d_model=1024``, whose first word is a setting's."""
_SUBJECT = re.compile(r"\b(?:(?:pre)?train(?:ing)?|fine-?tuning|running|benchmarking|model)\s([\w./-]{2,80})", re.I)
_PRECISION = re.compile(r"\b(?:precision|dtype|mixed_precision)\s?[:= ]\s?([\w-]{2,20})", re.IGNORECASE)
_SHARDING = re.compile(r"\b(?:sharding|strategy)\s?[:= ]\s?([\w-]{2,40})", re.IGNORECASE)
_RECOMPUTE = re.compile(
    r"\b(?:"
    + "|".join(
        name.replace("_", "[ _-]") for name in sorted(meaning.RECOMPUTE, key=len, reverse=True) if len(name) > _LETTERS
    )
    + r")\s?[:=]?\s?("
    + "|".join(sorted((word for word in meaning.RECOMPUTED if word.isalnum()), key=len, reverse=True))
    + r")\b",
    re.IGNORECASE,
)
_WITH = re.compile(r"\bwith\s([\w-]{2,40})", re.IGNORECASE)
_PART = re.compile(r"[|,;]")
_ASIDE = re.compile(r"\(.{0,40}?\)|\s(?:on|with)\s.{0,80}")
"""Behind a model's name: in brackets its size, then on what it runs."""
_UP_TO = 1024


def settings_before(lines: Sequence[str]) -> dict[str, str]:
    """Settings of the first and last lines before a step, as they are said first; {} where they say only one thing.

    A line of its own that says one thing counts where it names it with a colon or an equals sign.
    """
    found: dict[str, str] = {}
    looked_at = lines if len(lines) <= 2 * _MOST_LINES else [*lines[:_MOST_LINES], *lines[-_MOST_LINES:]]
    for line in looked_at:
        if len(line) <= _LONGEST_LINE:
            said = _said(line)
            if len(said) >= _FEWEST or re.search(r"\w\s?[:=]\s?\w", line):
                found = said | found
    return found if len(found) >= _FEWEST else {}


def _said(line: str) -> dict[str, str]:
    said: dict[str, str] = {}
    for hit in _COUNT.finditer(line):
        name = _NAME_OF[re.sub(r"[ -]", "_", hit[1].lower())]
        many = int(hit[2].replace(",", "") or 0) * (_UP_TO if hit[3] else 1)
        said.setdefault("per_device_batch_size" if hit[4] and name.startswith("batch") else name, str(many))
    for axis, degree in degrees_said([line]).items():
        if axis in _COUNTS:
            said.setdefault(axis, str(degree))
    if gpus := gpus_said(line):
        said.setdefault("world_size", str(gpus[0]))
    if busy := _BUSY.match(line):
        said[BUSY_GPUS] = busy[1]
    if chip := next(spoken(line), None):
        said["gpu"] = chip.name
    elif _CPU.search(line):
        said["gpu"] = CPU
    if (printed := _PARAMETERS.search(line)) and count(printed[1]):
        said[sizes.COUNT] = printed[1]
    if (named := _MODEL.search(line)) and named[1].lower() not in _NAME_OF:
        said["model"] = named[1]
    else:
        subjects = [subject[1] for subject in _SUBJECT.finditer(line)]
        subjects += [_ASIDE.sub("", part.rpartition(":")[2]).strip() for part in _PART.split(line)]
        known = [one for one in subjects if model_of({"model": one.rpartition("/")[2]})]
        said |= {"model": known[0]} if known else {}
    said |= _in_words(line)
    return said


def _in_words(line: str) -> dict[str, str]:
    """Sharding and precision by their names, else as words that stand alone between separators; what is recomputed."""
    alone = [part.strip() for part in _PART.split(line)]
    sharded = [hit[1] for pattern in (_SHARDING, _WITH) if (hit := pattern.search(line))]
    precise = [hit[1] for hit in (_PRECISION.search(line),) if hit]
    plain = (word for word in (*sharded, *alone) if _PLAIN.match(word) and sharding_of(word))
    sharding = next(plain, "") or sharding_said([line])
    precision = next((word for word in (*precise, *alone) if _PLAIN.match(word) and precision_of(word)), "")
    again = _RECOMPUTE.search(line)
    found = {"sharding": sharding, "precision": precision, "recompute": again[1].lower() if again else ""}
    return {name: word for name, word in found.items() if word}
