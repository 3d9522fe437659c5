"""What policies keep: decisions, bytes, and the same gradients under each of them."""

import functools

import pytest
import torch
from bitwise import assert_same, leaf, plain, run
from live import live_bytes
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

import remat
from remat import policies

ROWS, WIDTH = 256, 64
ACTIVATION = ROWS * WIDTH * 4  # bytes


def block(x):
    return (x @ x).sin().exp()


def step_with(policy, fn=block):
    def step(checkpoint):
        x = leaf()
        y = plain(fn, x) if checkpoint is plain else checkpoint(fn, x, policy=policy)
        y.sum().backward()
        return [y.detach(), x.grad]

    return step


def counters_under(policy, fn=block):
    remat.reset_stats()
    assert_same(run(step_with(policy, fn), remat.checkpoint), run(step_with(None, fn), plain))
    return remat.stats()


class Block(nn.Module):
    """Attention and MLP as transformers have them, with named values."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).view(8, -1, 3, WIDTH).unbind(2)
        scores = torch.softmax(torch.bmm(q, k.transpose(1, 2)), -1)
        x = x + self.out(remat.checkpoint_name(torch.bmm(scores, v).view(ROWS, WIDTH), "attn_out"))
        return x + remat.checkpoint_name(self.mlp(self.norm(x)), "mlp_out")


def trained(policy, blocks=2):
    """Loss and gradients of a step with each block checkpointed; bytes held after forward."""
    remat.memory.install()
    torch.manual_seed(0)
    model = nn.Sequential(*[Block() for _ in range(blocks)])
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    before = live_bytes()
    h = x
    for layer in model:
        h = layer(h) if policy is plain else remat.checkpoint(layer, h, policy=policy)
    loss = h.square().sum()
    del h
    held = remat.memory.live_bytes() - before
    loss.backward()
    return [loss.detach(), x.grad, *[p.grad for p in model.parameters()]], held


ALL = [
    "nothing_saveable",
    "everything_saveable",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    "keep_ops('*softmax*', gelu)",
    "names(attn_out)",
    "save_any_names_but_these(attn_out)",
    "save_anything_except_these_names(attn_out, mlp_out)",
    "modules(mlp)",
    "everything_saveable - modules(mlp)",
    "modules(*.1) | every(2) & dots_saveable - at_least(150000)",
    "at_most(64KiB)",
    lambda facts: facts.index % 3 == 0,
]


@pytest.mark.parametrize("policy", ALL, ids=str)
def test_gradients_are_plain_training_s_to_the_bit(policy):
    _, least = trained("nothing_saveable")  # first: it may end what an earlier test left open
    gradients, held = trained(policy)
    expected, most = trained(plain)
    assert_same(gradients, expected)
    assert least <= held <= most


# ---- What is held --------------------------------------------------------------------------------


def held_over_nothing(policy):
    """Activations held beyond those of nothing_saveable, by one block."""
    more = trained(policy, blocks=1)[1] - trained("nothing_saveable", blocks=1)[1]
    return more / ACTIVATION


def test_dots_are_held_where_backward_needs_them():
    # qkv (3), scores (32 x 32 each of 8: half an activation), both bmm and up; not `out` and
    # down, of whose results the sums and norms need only what is made again from them.
    assert held_over_nothing("dots_saveable") == 3 + 0.5 + 1 + 1 + 1


def test_no_batch_dims_are_the_projections():
    assert held_over_nothing("dots_with_no_batch_dims_saveable") == 3 + 1 + 1


def test_a_named_value_is_held():
    assert held_over_nothing("names(attn_out)") == 1


def test_a_named_value_that_nothing_needs_is_not_held():
    assert held_over_nothing("names(mlp_out)") == 0


def test_everything_but_the_named_value():
    less = held_over_nothing("everything_saveable") - held_over_nothing(
        policies.save_anything_except_these_names("attn_out")
    )
    assert less == 1


def test_a_module_s_values_are_held():
    assert held_over_nothing("modules(mlp)") == held_over_nothing("keep_ops(gelu) | modules(mlp)")
    assert held_over_nothing("modules(mlp)") == 2  # what up and gelu make
    assert held_over_nothing("modules(mlp.0)") == 1
    assert held_over_nothing("modules(mlp.1, attention)") == 1


def test_by_size():
    qkv = 3 * ACTIVATION
    assert held_over_nothing(f"at_least({qkv})") == 3
    assert held_over_nothing(policies.at_least(qkv) & policies.at_most(qkv - 1)) == 0


# ---- One rule after another ----------------------------------------------------------------------


def test_nothing_saveable_is_the_default():
    default, named = counters_under(None), counters_under("nothing_saveable")
    assert default["ops_replayed"] == named["ops_replayed"] > 0
    assert default["bytes_dropped"] == named["bytes_dropped"] > 0


def test_everything_saveable_replays_nothing():
    stats = counters_under("everything_saveable")
    assert stats["ops_replayed"] == 0
    assert stats["bytes_dropped"] == 0
    assert stats["bytes_kept"] > 0


@pytest.mark.parametrize("name", ["mm", "aten::mm", "m*", torch.ops.aten.mm.default, ["mm"]])
def test_keep_ops_keeps_what_they_return(name):
    kept, dropped = counters_under(remat.keep_ops(name)), counters_under("nothing_saveable")
    assert kept["ops_replayed"] < dropped["ops_replayed"]
    assert kept["bytes_dropped"] == dropped["bytes_dropped"] - leaf().nbytes


def test_keep_ops_of_all_ops_replays_nothing():
    assert counters_under(remat.keep_ops(["mm", "sin", "exp"]))["ops_replayed"] == 0


def test_every_second_call():
    def chain(x):
        return x.exp().exp().exp().exp()

    assert counters_under("every(2)", chain)["kept_by_reason"]["policy"] == 2 * leaf().nbytes


def test_policy_of_a_region():
    with remat.region(policy="everything_saveable"):
        y = block(leaf())
    y.sum().backward()
    assert remat.stats()["ops_replayed"] == 0


def test_policy_of_checkpoint_sequential_and_segment():
    layers = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(4)])
    remat.checkpoint_sequential(layers, 2, leaf(), policy="modules(1.1, 3)").sum().backward()
    by_path = remat.stats()["ops_replayed"]
    remat.reset_stats()
    handle = remat.segment(layers, 2, policy="modules(1.1, 3)")
    layers(leaf()).sum().backward()
    handle.remove()
    # Of four pairs of a product and a tanh, two are recomputed, and one product.
    assert by_path == remat.stats()["ops_replayed"] == 4


# ---- Algebra -------------------------------------------------------------------------------------


def test_policies_compose_as_values_and_as_text():
    composed = policies.dots_saveable | policies.keep_ops("exp") & policies.every(2) - "at_most(8)"
    text = "dots_saveable | keep_ops(exp) & every(2) - at_most(8)"
    assert str(composed) == text
    assert repr(composed) == f"Policy('{text}')"
    assert str("every(2)" | composed) == f"every(2) | {text}"
    assert str(remat.Policy(text)) == text


@pytest.mark.parametrize("policy", [p for p in ALL if isinstance(p, str)])
def test_a_policy_is_what_its_text_says(policy):
    once = str(remat.Policy(policy))
    assert str(remat.Policy(once)) == once


JAX_NAMES = [
    "everything_saveable",
    "nothing_saveable",
    "dots_saveable",
    "checkpoint_dots",
    "dots_with_no_batch_dims_saveable",
    "checkpoint_dots_with_no_batch_dims",
    "offload_dot_with_no_batch_dims",
    "save_anything_except_these_names",
    "save_any_names_but_these",
    "save_only_these_names",
    "save_from_both_policies",
    "save_and_offload_only_these_names",
]


def test_jax_names_are_all_there():
    for name in JAX_NAMES:
        assert hasattr(policies, name)


def test_save_from_both_policies_keeps_what_either_keeps():
    both = policies.save_from_both_policies("keep_ops(mm)", policies.keep_ops("exp"))
    assert counters_under(both)["kept_by_reason"]["policy"] == 2 * leaf().nbytes


@pytest.mark.parametrize(
    "make", [policies.offload_dot_with_no_batch_dims, policies.save_and_offload_only_these_names]
)
def test_offloading_is_refused_with_the_way_out(make):
    with pytest.raises(ValueError, match=r"no host memory tier yet: .* keeps"):
        make(offload_src="device", offload_dst="pinned_host")


# ---- A user's own --------------------------------------------------------------------------------


def test_a_function_is_told_the_facts():
    seen = []

    def policy(facts):
        seen.append(facts)
        return facts.op == "aten::mm"

    assert counters_under(policy)["kept_by_reason"]["policy"] == leaf().nbytes
    first = seen[0]
    assert (first.op, first.shape, first.dtype) == ("aten::mm", (4, 4), torch.float32)
    assert (first.bytes, first.index, first.result, first.call) == (64, 0, 0, 1)
    assert (first.module, first.names) == (None, ())
    assert [facts.op for facts in seen] == ["aten::mm", "aten::sin", "aten::exp"]


def test_a_function_sees_modules_and_is_asked_again_about_names():
    seen = []
    model = Block()
    remat.checkpoint(model, torch.randn(ROWS, WIDTH), policy=lambda f: bool(seen.append(f)))
    modules = {facts.module for facts in seen}
    assert {"", "qkv", "norm", "mlp.0", "mlp.1", "mlp.2", "out"} <= modules
    assert ("attn_out",) in {facts.names for facts in seen}


def test_an_error_in_a_function_is_raised_and_nothing_is_lost():
    def policy(facts):
        raise KeyError(facts.op)

    x = leaf()
    with pytest.raises(KeyError, match="aten::mm"):
        remat.checkpoint(block, x, policy=policy)
    with pytest.raises(KeyError, match="aten::mm"), remat.region(policy):
        y = block(x)
    y.sum().backward()
    assert_same([y.detach(), x.grad], run(step_with(None), plain)[0])


def test_a_function_that_does_not_say_yes_or_no_is_an_error():
    with pytest.raises(TypeError, match="returns True to keep a value or False"):
        remat.checkpoint(block, leaf(), policy=lambda facts: None)


def test_a_function_s_policy_composes():
    mine = remat.Policy(lambda facts: True, "mine")
    assert str(mine - remat.keep_ops("mm")) == "mine - keep_ops(mm)"
    stats = counters_under(mine - "keep_ops(mm)")
    assert stats["bytes_dropped"] == stats["kept_by_reason"]["policy"] == leaf().nbytes


# ---- Names ---------------------------------------------------------------------------------------


def test_checkpoint_name_returns_what_it_is_given():
    x = leaf()
    assert remat.checkpoint_name(x, "x") is x
    pair = (x, {"y": x})
    with remat.region():
        assert remat.checkpoint_name(pair, "pair") is pair
    with pytest.raises(ValueError, match="cannot be named"):
        remat.checkpoint_name(x, "")


def test_a_tape_shows_names():
    x = leaf()
    with remat.region() as region:
        remat.checkpoint_name(x.exp(), "y").sin()
        assert "named %1  y" in region.tape()


# ---- Modules -------------------------------------------------------------------------------------


def test_modules_need_a_module():
    with pytest.raises(ValueError, match="asks which module runs"):
        remat.checkpoint(block, leaf(), policy="modules(mlp)")
    with pytest.raises(ValueError, match="asks which module runs"), remat.region("modules(mlp)"):
        block(leaf())


def test_a_region_s_modules_have_paths_from_the_model_on():
    model = nn.Sequential(nn.Sequential(nn.Tanh(), nn.Sigmoid()), nn.Tanh())
    with remat.region("modules(0.1)", module=model):
        y = model(leaf().exp())
    y.sum().backward()
    assert remat.stats()["kept_by_reason"]["policy"] == leaf().nbytes


def test_a_failing_module_leaves_no_path_behind():
    class Fails(nn.Module):
        def forward(self, x):
            raise ZeroDivisionError

    model, x = nn.Sequential(nn.Tanh(), Fails()), leaf()
    with remat.region("modules(1)", module=model) as region:
        with pytest.raises(ZeroDivisionError):
            model(x)
        y = x.exp()
        assert region.held_bytes() == 0
    del y


def test_no_hooks_are_left():
    before = len(torch.nn.modules.module._global_forward_pre_hooks)
    with pytest.raises(ZeroDivisionError), remat.region("modules(1)", module=nn.Tanh()):
        raise ZeroDivisionError
    remat.checkpoint(nn.Tanh(), leaf(), policy="modules(1)")
    assert len(torch.nn.modules.module._global_forward_pre_hooks) == before
    assert len(torch.nn.modules.module._global_forward_hooks) == before


# ---- Errors --------------------------------------------------------------------------------------


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="no_such_policy") as error:
        remat.checkpoint(block, leaf(), policy="names(a) | no_such_policy")
    assert "at column 12" in str(error.value)
    assert "nothing_saveable, everything_saveable, dots_saveable" in str(error.value)


@pytest.mark.parametrize("policy", [7, ["mm"]])
def test_policy_of_another_type_is_refused(policy):
    with pytest.raises(TypeError, match="policy"):
        remat.checkpoint(block, leaf(), policy=policy)


@pytest.mark.parametrize("names", [[], [""]], ids=str)
def test_keep_ops_refuses_no_name(names):
    with pytest.raises(ValueError, match="keep_ops"):
        remat.keep_ops(names)


# ---- Selective checkpointing of torch -----------------------------------------------------------


def saves_mm(context, operator, *_args, **_kwargs):
    return CheckpointPolicy.MUST_SAVE if operator is torch.ops.aten.mm.default else False


@pytest.mark.parametrize(
    "context_fn",
    [
        functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default]),
        functools.partial(create_selective_checkpoint_contexts, saves_mm),
        lambda: create_selective_checkpoint_contexts([torch.ops.aten.mm.default]),
    ],
    ids=["operators", "function", "lambda"],
)
def test_selective_checkpointing_keeps_what_it_says(context_fn):
    remat.reset_stats()
    x = leaf()
    y = remat.checkpoint(block, x, use_reentrant=False, context_fn=context_fn)
    y.sum().backward()
    assert_same([y.detach(), x.grad], run(step_with(None), plain)[0])
    assert remat.stats()["kept_by_reason"]["policy"] == x.nbytes  # mm, which sin saves
    assert remat.stats()["ops_replayed"] == 0


def test_selective_checkpointing_shows_its_function_the_arguments():
    seen = []

    def policy(context, operator, *args, **_):
        seen.append((operator.name(), context.is_recompute, len(args)))
        return CheckpointPolicy.PREFER_RECOMPUTE

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    remat.checkpoint(block, leaf(), context_fn=contexts).sum().backward()
    assert seen == [("aten::mm", False, 2), ("aten::sin", False, 1), ("aten::exp", False, 1)]


def test_a_policy_and_a_context_fn_are_one_too_many():
    contexts = functools.partial(create_selective_checkpoint_contexts, [])
    with pytest.raises(ValueError, match="not both"):
        remat.checkpoint(block, leaf(), policy="dots_saveable", context_fn=contexts)


# ---- Counters ------------------------------------------------------------------------------------


def test_stats_count_bytes_by_reason():
    stats = counters_under("everything_saveable")
    assert {
        "ops_recorded",
        "ops_replayed",
        "bytes_dropped",
        "bytes_kept",
        "kept_by_reason",
    } <= stats.keys()
    assert sum(stats["kept_by_reason"].values()) == stats["bytes_kept"]
    assert stats["ops_recorded"] == 3


def test_reset_stats():
    remat.checkpoint(block, leaf()).sum().backward()
    remat.reset_stats()
    stats = remat.stats()
    assert (
        stats["ops_recorded"]
        == stats["ops_replayed"]
        == stats["bytes_dropped"]
        == stats["bytes_kept"]
        == 0
    )
