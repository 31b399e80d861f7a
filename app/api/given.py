"""Given: the shape of what requests hold, for the OpenAPI document, with examples that the server takes.

The estimator's own readers decide; a name of the catalogue may stand where an object may.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, Required, TypedDict

from estimator.scenario.hardware import Chip, Cluster, Link
from estimator.scenario.model import Model
from estimator.scenario.plan import Plan
from estimator.scenario.training import Training
from runners.job import Job
from runners.placement import Placement


class GivenCluster(TypedDict, total=False):
    """Nodes of equal chips; what is left out is usual for the chip."""

    chip: Required[str | Chip]
    chips_per_node: int
    nodes: int
    link: str | Link
    network: str | Link


class GivenScenario(TypedDict):
    """All that a prediction needs."""

    model: str | Model
    cluster: str | GivenCluster
    plan: NotRequired[Plan]
    training: Training


class GivenLimits(TypedDict, total=False):
    """What a plan may need."""

    memory_bytes: float
    max_step_time_s: float


class GivenFurther(TypedDict, total=False):
    """What a search moves besides, by values or all of them."""

    recompute_every: list[int] | Literal["all"]
    offload: list[str] | Literal["all"]
    ddp_mode: list[str] | Literal["all"]
    overlap: list[bool] | Literal["all"]


class GivenSearch(TypedDict):
    """A scenario without a plan; ``locked`` holds fields of the plan that stay; ``grid`` names up to two."""

    model: str | Model
    cluster: str | GivenCluster
    training: Training
    limits: NotRequired[GivenLimits]
    objective: NotRequired[Literal["step_time", "cost", "memory"]]
    locked: NotRequired[Plan]
    search: NotRequired[GivenFurther]
    grid: NotRequired[list[str]]


class GivenAnswers(TypedDict, total=False):
    """What the file of a run leaves out: its model by name or one's own, tokens of a sequence, sequences of a step over
    all GPUs, how many GPUs, and which, a chip of the catalogue by name or one's own.
    """

    model: str | Model
    seq_len: int
    global_batch: int
    gpus: int
    chip: str | Chip


class GivenAxis(TypedDict):
    """A scenario, and the field along whose legal values it is wanted."""

    scenario: GivenScenario
    field: str


class GivenHierarchy(TypedDict):
    """A scenario, and how its products are tiled."""

    scenario: GivenScenario
    mode: NotRequired[Literal["compatible", "bound"]]


class GivenParallelism(TypedDict):
    """A scenario, and over how many chips its model is split; 0: those of the scenario."""

    scenario: GivenScenario
    ranks: NotRequired[int]


class GivenItem(TypedDict, total=False):
    """Either a measurement's id, the id of a profile whose own ops are predicted, or a scenario."""

    measurement: str
    expected: str
    scenario: GivenScenario
    label: str


class GivenComparison(TypedDict):
    """What is compared; ``baseline`` is the index of an item."""

    items: list[GivenItem]
    baseline: NotRequired[int]


CHECKED: dict[Any, type[Any]] = {
    **{cls: cls for cls in (Model, Chip, Link, Plan, Training, Job, Placement)},
    GivenCluster: Cluster,
}
"""Shapes whose fields the codec holds to the ``spec`` of a dataclass."""

SCENARIO: dict[str, Any] = {
    "model": "llama3-8b",
    "cluster": {"chip": "h100-sxm", "nodes": 1},
    "plan": {"dp": 8, "sharding": "fsdp", "recompute": "full"},
    "training": {"seq_len": 4096, "global_batch": 64, "precision": "bf16-amp"},
}
ANSWERS: dict[str, Any] = {"model": "gpt2-xl", "seq_len": 1024, "global_batch": 64, "gpus": 8, "chip": "h100-sxm"}
SEARCH: dict[str, Any] = {
    "model": "llama3-8b",
    "cluster": {"chip": "h100-sxm", "nodes": 1},
    "training": {"seq_len": 4096, "global_batch": 64, "precision": "bf16-amp"},
    "limits": {"memory_bytes": 80e9},
    "objective": "step_time",
    "locked": {"pp": 1, "cp": 1},
}
JOB: dict[str, Any] = {
    "benchmark": "step",
    "warmup": 1,
    "steps": 2,
    "scenario": {
        "model": "gpt2",
        "cluster": {"chip": "h100-sxm", "chips_per_node": 1},
        "training": {"seq_len": 128, "global_batch": 1, "precision": "fp32"},
    },
}
HUGGING_FACE: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128_256,
}
HUGGING_FACE_OTHER: dict[str, Any] = {
    "model_type": "vit",
    "architectures": ["ViTForImageClassification"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}
"""An architecture without closed form."""

TABLE = "| model | seq_len | step time (ms) |\n|---|---|---|\n| gpt2 | 128 | 10.5 |\n"
