"""Recording: parameters that come and go while a program is traced."""

import torch
from torch import nn

from estimator.scenario.op_list import NONE
from runners.program.modules import ModulePaths
from runners.program.recording import Recording


def test_a_parameter_that_is_gone_lends_its_identity_to_no_other():
    recording = Recording()
    found = [recording.weight(nn.Parameter(torch.zeros(size))) for size in range(1, 40)]
    assert found == list(range(39))
    kept = nn.Parameter(torch.zeros(2))
    assert recording.weight(kept) == recording.weight(kept) == 39


def test_a_module_that_is_gone_gives_its_parameters_names_to_no_other():
    paths = ModulePaths(lambda _: None)
    paths.install()
    try:
        nn.Sequential(nn.Linear(2, 2))(torch.zeros(1, 2))
    finally:
        paths.remove()
    others = [nn.Parameter(torch.zeros(2)) for _ in range(40)]
    nodes = [(one * 2).grad_fn.next_functions[0][0] for one in others]
    assert {paths.of_node(node, 0)[0] for node in nodes} == {NONE}
    assert [paths.parameters.get(one, "") for one in others] == [""] * 40
