"""Keys: read a config.json with its family's defaults, and keep what is wrong with it and what was assumed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estimator.scenario.problems import Problem, shown

LARGEST = 100_000_000
MOST_LAYERS = 10_000

ALIASES = {
    # transformers' own attribute maps (configuration_gpt2.py, configuration_mixtral.py, configuration_deepseek_v3.py).
    "num_hidden_layers": ("n_layer",),
    "hidden_size": ("n_embd",),
    "num_attention_heads": ("n_head",),
    "max_position_embeddings": ("n_positions",),
    "num_experts": ("num_local_experts", "n_routed_experts"),
    "num_mtp_layers": ("num_nextn_predict_layers",),
}


class Keys:
    """The document of one config.json; ``problems`` and ``assumptions`` grow as keys are read."""

    def __init__(self, document: Mapping[str, Any], defaults: Mapping[str, Any], where: str = "") -> None:
        self.document = document
        self.defaults = defaults
        self.where = where
        self.problems: list[Problem] = []
        self.assumptions: list[str] = []

    def name(self, key: str) -> str:
        """Return the name under which this document or this family writes ``key``."""
        names = (key, *ALIASES.get(key, ()))
        written = [name for name in names if name in self.document] or [name for name in names if name in self.defaults]
        return self.where + (written[0] if written else key)

    def given(self, key: str) -> bool:
        """Whether the document has the key, be it null."""
        return any(name in self.document for name in (key, *ALIASES.get(key, ())))

    def value(self, key: str) -> Any:
        """Return what the document says, null included, else the family's default, else None."""
        names = (key, *ALIASES.get(key, ()))
        for values in (self.document, self.defaults):
            for name in names:
                if name in values:
                    return values[name]
        return None

    def count(self, key: str, minimum: int = 1) -> int:
        """Return a whole number; absent ones take the family's default, which is noted."""
        value = self.value(key)
        if value is None:
            said = "is null" if self.given(key) else "is missing"
            self.refuse(key, said, f"Give a whole number of at least {minimum}.")
            return minimum
        if not self.given(key):
            said = f"{self.name(key)} = {value}"
            self.assumptions.append(f"{said}: the file leaves it out, and transformers then assumes that.")
        return self._whole(key, value, minimum)

    def optional(self, key: str) -> int:
        """Return a whole number, or 0 where the document or the family's default has null or nothing."""
        value = self.value(key)
        return 0 if value is None else self._whole(key, value, 0)

    def flag(self, key: str) -> bool:
        """Return true or false; null is false."""
        value = self.value(key)
        if value is not None and not isinstance(value, bool):
            self.refuse(key, f"must be true or false, not {shown(value)}", "Write true or false.")
            return False
        return bool(value)

    def choice(self, key: str, known: Mapping[str, str]) -> str:
        """Return what ``known`` makes of the key's text."""
        value = self.value(key)
        if not isinstance(value, str) or value not in known:
            self.refuse(key, f"{shown(value)} is not modelled", f"One of: {', '.join(known)}.")
            return next(iter(known.values()))
        return known[value]

    def whole_numbers(self, key: str) -> list[int]:
        """Return a list of whole numbers; null and absence are empty."""
        value = self.value(key) or []
        if not isinstance(value, list) or any(type(item) is not int for item in value):
            self.refuse(key, "must be a list of layer numbers", "Write [0, 1] or leave it out.")
            return []
        return value

    def refuse(self, key: str, message: str, remedy: str) -> None:
        """Note a problem with a key."""
        self.problems.append(Problem(field=self.name(key), message=message, remedy=remedy))

    def _whole(self, key: str, value: Any, minimum: int) -> int:
        if type(value) is not int:
            self.refuse(key, f"must be a whole number, not {shown(value)}", f"Give at least {minimum}.")
            return minimum
        # Patterns of layers are written out one by one, so their number is bounded before that.
        largest = MOST_LAYERS if key == "num_hidden_layers" else LARGEST
        if not minimum <= value <= largest:
            self.refuse(key, f"{shown(value)} is out of range", f"Give {minimum} to {largest}.")
            return minimum
        return value
