"""Training: what is not modelled is refused."""

from estimator.training import PRECISIONS, Training


def test_every_precision_but_fp8_is_modelled():
    refused = [name for name in PRECISIONS if Training(seq_len=1, global_batch=1, precision=name).problems()]
    assert refused == ["fp8"]


def test_the_refusal_names_the_field_and_the_choices():
    (problem,) = Training(seq_len=1, global_batch=1, precision="fp8").problems()
    assert problem.field == "training.precision"
    assert all(name in problem.remedy for name in PRECISIONS if name != "fp8")
