"""Policies by name and by op, and the counters that show what they did."""

import pytest
from bitwise import assert_same, leaf, plain, run

import remat


def block(x):
    return (x @ x).sin().exp()


def step_with(policy):
    def step(checkpoint):
        x = leaf()
        y = plain(block, x) if checkpoint is plain else checkpoint(block, x, policy=policy)
        y.sum().backward()
        return [y.detach(), x.grad]

    return step


def counters_under(policy):
    remat.reset_stats()
    assert_same(run(step_with(policy), remat.checkpoint), run(step_with(None), plain))
    return remat.stats()


def test_nothing_saveable_is_the_default():
    default, named = counters_under(None), counters_under("nothing_saveable")
    assert default["ops_replayed"] == named["ops_replayed"] > 0
    assert default["bytes_dropped"] == named["bytes_dropped"] > 0


def test_everything_saveable_replays_nothing():
    stats = counters_under("everything_saveable")
    assert stats["ops_replayed"] == 0
    assert stats["bytes_dropped"] == 0
    assert stats["bytes_kept"] > 0


@pytest.mark.parametrize("name", ["mm", "aten::mm"])
def test_keep_ops_keeps_what_they_return(name):
    kept, dropped = counters_under(remat.keep_ops([name])), counters_under("nothing_saveable")
    assert kept["ops_replayed"] < dropped["ops_replayed"]
    assert kept["bytes_dropped"] == dropped["bytes_dropped"] - leaf().nbytes


def test_keep_ops_of_all_ops_replays_nothing():
    assert counters_under(remat.keep_ops(["mm", "sin", "exp"]))["ops_replayed"] == 0


def test_policy_of_a_region():
    with remat.region(policy="everything_saveable"):
        y = block(leaf())
    y.sum().backward()
    assert remat.stats()["ops_replayed"] == 0


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="no_such_policy") as error:
        remat.checkpoint(block, leaf(), policy="no_such_policy")
    assert "nothing_saveable" in str(error.value)
    assert "everything_saveable" in str(error.value)


@pytest.mark.parametrize("policy", [7, ["mm"], print])
def test_policy_of_another_type_is_refused(policy):
    with pytest.raises(TypeError, match="policy"):
        remat.checkpoint(block, leaf(), policy=policy)


def test_keep_ops_refuses_a_bare_name():
    with pytest.raises(TypeError, match=r'keep_ops\(\["mm"\]\)'):
        remat.keep_ops("mm")


@pytest.mark.parametrize("names", [[], [""]], ids=str)
def test_keep_ops_refuses_no_name(names):
    with pytest.raises(ValueError, match="keep_ops"):
        remat.keep_ops(names)


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
