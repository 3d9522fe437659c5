"""transformers' own tests of checkpointing, on the picked tiny models. Collected by pytest, run by
transformers_tests.py.

The mixin is read from transformers' sources as it is; two of its siblings, which those leave out,
are empty here.
"""

import sys
import types
import unittest

import suite
import tiny_models

OWN = suite.SOURCES / "transformers" / "tests"
KEPT = {
    "test_training_gradient_checkpointing",
    "test_training_gradient_checkpointing_use_reentrant_false",
    "test_training_gradient_checkpointing_use_reentrant_true",
    "test_gradient_checkpointing_backward_compatibility",
    "test_gradient_checkpointing_enable_disable",
    "test_peft_gradient_checkpointing_enable_disable",
    "test_enable_input_require_grads_with_gradient_checkpointing",
}
# Routes few tokens: some experts of a tiny model see none, and get no gradient.
SPARSE = ("mixtral", "qwen3_moe", "deepseek_v3", "gpt_oss")


def module(name, **attributes):
    made = types.ModuleType(name)
    vars(made).update(attributes)
    sys.modules[name] = made


def import_mixin():
    module("tests", __path__=[str(OWN)])
    for package, name, missing in (
        ("exporters", "test_export", "ExportTesterMixin"),
        ("generation", "test_utils", "GenerationTesterMixin"),
    ):
        module(f"tests.{package}", __path__=[])
        module(f"tests.{package}.{name}", **{missing: type(missing, (), {})})
    from tests.test_modeling_common import ModelTesterMixin

    return ModelTesterMixin


class Tester:
    """What the mixin asks of the model's own tester."""

    is_training = True
    num_hidden_layers = 2
    seq_length = 10
    hidden_size = 32
    batch_size = 2
    num_choices = 2

    def __init__(self, head, architecture):
        self.head = head
        self.architecture = architecture

    def get_config(self):
        return tiny_models.configuration(self.architecture)

    def prepare_config_and_inputs_for_common(self):
        config = self.get_config()
        return config, tiny_models.inputs(config, self.head)


def case(mixin, head, architecture):
    def set_up(self):
        self.model_tester = Tester(head, architecture)

    left_out = [name for name in dir(mixin) if name.startswith("test_") and name not in KEPT]
    attributes = dict.fromkeys(left_out) | {
        "setUp": set_up,
        "all_model_classes": (tiny_models.model_class(architecture, head),),
        "test_all_params_have_gradient": architecture not in SPARSE,
        "is_encoder_decoder": head == "seq2seq",
    }
    name = "Test_" + architecture.replace("-", "_")
    return name, type(name, (mixin, unittest.TestCase), attributes)


globals().update(case(import_mixin(), *pair) for pair in tiny_models.picked())
