"""GET /api/accuracy: the committed figures, whole and consistent with one another."""

from __future__ import annotations

import json

from estimator.validation.accuracy import FILE


def test_every_scored_set_with_its_groups_and_the_points_of_bundled_ones(client):
    answer = client.get("/api/accuracy")
    assert answer.status_code == 200
    sets = {one["name"]: one for one in answer.json()["sets"]}
    committed = {name: one for name, one in json.loads(FILE.read_text()).items() if one["n"]}
    assert sets.keys() == committed.keys()
    for name, one in sets.items():
        assert one["held_out"] == committed[name].get("held_out")
        if one["time"] is None:
            continue
        assert one["by"].keys() == {"chip", "model", "kind", "largest"}
        for groups in one["by"].values():
            assert sum(group["time"]["n"] for group in groups) == one["time"]["n"], name
        for point in one["points"]:
            assert 0 < point["low_s"] <= point["predicted_s"] <= point["high_s"], name
    points = sets["h200 steps, first day"]["points"]
    inside = [point["low_s"] <= point["measured_s"] <= point["high_s"] for point in points]
    assert abs(100 * sum(inside) / len(inside) - sets["h200 steps, first day"]["covered"]) < 0.1
    assert sets["neusight_steps"]["peers"]["neusight"]["median"] > sets["neusight_steps"]["time"]["median"]
    assert sets["vtrain_a100"]["points"] == [], "steps of tables that do not come with Headroom stay out of it"
