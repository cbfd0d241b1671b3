"""Control flow of TensorFlow 1 written without TensorFlow: Switch, Merge, Enter, Exit, NextIteration, TensorArrayV3."""

import pathlib

import numpy as np
import pytest
from graph_writer import F32, Shape, Type, add, constant, node, part, placeholder, write
from harness import close, refused, run

I32, BOOL = Type(np.int32), Type("bool")
X = np.array([[1, -2, 3], [4, 5, -6]], np.float32) / 4


def switch(name: str, value: str, flag: str = "flag", of: Type = F32) -> bytes:
    return node(name, "Switch", value, flag, T=of)


def merge(name: str, *values: str, of: Type = F32) -> bytes:
    return node(name, "Merge", *values, T=of, N=len(values))


def enter(name: str, value: str, of: Type = F32, frame: str = "loop", constant: bool = False) -> bytes:
    return node(name, "Enter", value, T=of, frame_name=frame, is_constant=constant, parallel_iterations=10)


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("order", ["false_first", "true_first"])
def test_switch_and_merge(tmp_path: pathlib.Path, flag: bool, order: str) -> None:
    """Output 0 of Switch is the branch of false; the order of Merge's inputs says nothing."""
    branches = ["no", "yes"] if order == "false_first" else ["yes", "no"]
    nodes = [placeholder("x", (2, 3)), placeholder("flag", (), "bool"), switch("s", "x")]
    nodes += [node("no", "Exp", "s", T=F32), node("yes", "Neg", "s:1", T=F32), merge("y", *branches)]
    got = run(write(tmp_path, *nodes), {"x": X, "flag": np.array(flag)}, tmp_path / "run", "--outputs=y")
    close(got["y"], -X if flag else np.exp(X))


@pytest.mark.parametrize("flag", [True, False])
def test_branch_of_constants(tmp_path: pathlib.Path, flag: bool) -> None:
    """A branch that reads no value hangs on its pivot by control edges only."""
    nodes = [
        placeholder("x", (2, 3)),
        placeholder("flag", (), "bool"),
        switch("pivots", "flag", of=BOOL),
        node("pivot_no", "Identity", "pivots", T=BOOL),
        node("pivot_yes", "Identity", "pivots:1", T=BOOL),
        constant("seven", 7, "f4", "^pivot_no"),
        constant("two", 2, "f4", "^pivot_yes"),
        merge("factor", "seven", "two"),
        node("y", "Mul", "x", "factor", T=F32),
    ]
    got = run(write(tmp_path, *nodes), {"x": X, "flag": np.array(flag)}, tmp_path / "run", "--outputs=y")
    close(got["y"], X * np.float32(2 if flag else 7))


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("other", [True, False])
def test_switches_of_two_predicates(tmp_path: pathlib.Path, flag: bool, other: bool) -> None:
    """A condition in the true branch of another; its predicate is switched as well."""
    nodes = [
        placeholder("x", (2, 3)),
        placeholder("flag", (), "bool"),
        placeholder("other", (), "bool"),
        switch("outer", "x"),
        switch("other_inside", "other", of=BOOL),
        switch("inner", "outer:1", "other_inside:1"),
        node("inner_no", "Exp", "inner", T=F32),
        node("inner_yes", "Neg", "inner:1", T=F32),
        merge("inner_result", "inner_no", "inner_yes"),
        node("outer_no", "Abs", "outer", T=F32),
        merge("y", "outer_no", "inner_result"),
    ]
    feeds = {"x": X, "flag": np.array(flag), "other": np.array(other)}
    got = run(write(tmp_path, *nodes), feeds, tmp_path / "run", "--outputs=y")
    close(got["y"], (-X if other else np.exp(X)) if flag else np.abs(X))


def counter(limit: str = "limit", frame: str = "loop", start: str = "zero") -> list[bytes]:
    """i counts from 0; |limit| is invariant. The loop's condition is node "more"."""
    return [
        constant("zero", 0, "i4"),
        enter("i_enter", start, I32, frame),
        merge("i", "i_enter", "i_next", of=I32),
        enter("limit_enter", limit, I32, frame, constant=True),
        node("less", "Less", "i", "limit_enter", T=I32),
        node("more", "LoopCond", "less"),
        switch("i_switch", "i", "more", I32),
        node("i_exit", "Exit", "i_switch", T=I32),
        node("i_body", "Identity", "i_switch:1", T=I32),
        constant("one", 1, "i4", "^i_body"),
        add("i_plus", "i_body", "one", "i4"),
        node("i_next", "NextIteration", "i_plus", T=I32),
    ]


def state(name: str, start: str, result: str, of: Type = F32, frame: str = "loop") -> list[bytes]:
    """A state that goes round: read as NAME_body, computed anew by |result|, delivered by NAME_exit."""
    return [
        enter(f"{name}_enter", start, of, frame),
        merge(name, f"{name}_enter", f"{name}_next", of=of),
        switch(f"{name}_switch", name, "more", of),
        node(f"{name}_exit", "Exit", f"{name}_switch", T=of),
        node(f"{name}_body", "Identity", f"{name}_switch:1", T=of),
        node(f"{name}_next", "NextIteration", result, T=of),
    ]


def loop(*body: bytes) -> list[bytes]:
    return [placeholder("x", (2, 3)), placeholder("limit", (), "i4"), *counter(), *body]


@pytest.mark.parametrize("count", [0, 1, 4])
def test_loop(tmp_path: pathlib.Path, count: int) -> None:
    """v = v * v + x, with x as an invariant."""
    nodes = loop(
        *state("v", "x", "v_result"),
        enter("x_invariant", "x", constant=True),
        node("square", "Mul", "v_body", "v_body", T=F32),
        add("v_result", "square", "x_invariant"),
    )
    feeds = {"x": X, "limit": np.int32(count)}
    got = run(write(tmp_path, *nodes), feeds, tmp_path / "run", "--outputs=v_exit,i_exit")
    want = X
    for _ in range(count):
        want = want * want + X
    close(got["v_exit"], want)
    assert got["i_exit"] == count


@pytest.mark.parametrize("count", [0, 3])
def test_loop_of_which_only_the_counter_is_read(tmp_path: pathlib.Path, count: int) -> None:
    nodes = loop(*state("v", "x", "v_result"), node("v_result", "Neg", "v_body", T=F32))
    got = run(write(tmp_path, *nodes), {"limit": np.int32(count)}, tmp_path / "run", "--outputs=i_exit")
    assert got["i_exit"] == count


@pytest.mark.parametrize("count", [1, 5])
def test_tensor_array_of_results(tmp_path: pathlib.Path, count: int) -> None:
    """v doubles, and each value is written to an array that goes round as its flow."""
    handle = Type(20)
    nodes = loop(
        node("array", "TensorArrayV3", "limit", dtype=F32, element_shape=Shape((2, 3)), clear_after_read=True),
        enter("array_enter", "array", handle, constant=True),
        *state("v", "x", "v_result"),
        add("v_result", "v_body", "v_body"),
        *state("flow", "array:1", "written"),
        node("written", "TensorArrayWriteV3", "array_enter", "i_body", "v_body", "flow_body", T=F32),
        node("range_from", "Identity", "zero", T=I32),
        constant("step", 1, "i4"),
        node("all", "Range", "range_from", "limit", "step", Tidx=I32),
        node("y", "TensorArrayGatherV3", "array", "all", "flow_exit", dtype=F32, element_shape=Shape((2, 3))),
    )
    feeds = {"x": X, "limit": np.int32(count)}
    got = run(write(tmp_path, *nodes), feeds, tmp_path / "run", "--outputs=y")
    close(got["y"], np.stack([X * np.float32(2**n) for n in range(count)]))


@pytest.mark.parametrize("missing", ["v_next", "more", "v_enter"])
def test_broken_loop(tmp_path: pathlib.Path, missing: str) -> None:
    nodes = loop(*state("v", "x", "v_result"), node("v_result", "Neg", "v_body", T=F32))
    kept = [n for n in nodes if not n.startswith(part(1, missing))]
    assert len(kept) == len(nodes) - 1
    assert missing in refused(write(tmp_path, *kept), "--outputs=v_exit")


def test_loop_whose_merge_has_no_frame(tmp_path: pathlib.Path) -> None:
    """A Merge that feeds itself without Enter is a cycle."""
    nodes = [placeholder("x", (2, 3)), merge("m", "x", "again"), node("again", "Neg", "m", T=F32)]
    assert "m" in refused(write(tmp_path, *nodes), "--outputs=again")


def test_loop_whose_state_changes_its_type(tmp_path: pathlib.Path) -> None:
    nodes = loop(*state("v", "x", "v_result"), node("v_result", "Cast", "v_body", SrcT=F32, DstT=I32))
    message = refused(write(tmp_path, *nodes), "--outputs=v_exit")
    assert "v_next" in message or "v_result" in message or "v_enter" in message, message


def test_conditions_nested_too_deep(tmp_path: pathlib.Path) -> None:
    """Each condition's branch reads the result of the one before it, which is found from inside the branch only."""
    nodes = [placeholder("x", (2, 3)), placeholder("flag", (), "bool"), node("y0", "Neg", "x", T=F32)]
    for k in range(1, 150):
        nodes += [switch(f"s{k}", "x"), add(f"no{k}", f"s{k}", f"y{k - 1}"), add(f"yes{k}", f"s{k}:1", f"y{k - 1}")]
        nodes.append(merge(f"y{k}", f"no{k}", f"yes{k}"))
    assert "nested" in refused(write(tmp_path, *nodes), "--outputs=y149")


@pytest.mark.parametrize("count", [10, 1000])
def test_many_conditions_one_after_another(tmp_path: pathlib.Path, count: int) -> None:
    nodes = [placeholder("x", (2, 3)), placeholder("flag", (), "bool"), node("y0", "Neg", "x", T=F32)]
    for k in range(1, count):
        nodes += [
            switch(f"s{k}", f"y{k - 1}"),
            add(f"no{k}", f"s{k}", f"s{k}"),
            node(f"yes{k}", "Neg", f"s{k}:1", T=F32),
        ]
        nodes.append(merge(f"y{k}", f"no{k}", f"yes{k}"))
    path = write(tmp_path, *nodes)
    flags = [f"--outputs=y{count - 1}", "--builderOptimizationLevel=0"]
    got = run(path, {"x": X, "flag": np.array(True)}, tmp_path / "yes", *flags)
    close(got[f"y{count - 1}"], X * (-1) ** count)


def test_conditions_in_conditions(tmp_path: pathlib.Path) -> None:
    """Thirty deep: each condition is in the true branch of the one before it, as are the predicates inside."""
    depth, x = 30, "x"
    nodes = [placeholder("x", (2, 3)), placeholder("flag", (), "bool")]
    nodes += [node(f"p{k}", "LogicalNot", "flag") for k in range(depth)]
    inside = [f"p{k}" for k in range(depth)]
    for k in range(depth):
        nodes.append(node(f"s{k}", "Switch", x, inside[k], T=F32))
        nodes += [node(f"s{k}_{j}", "Switch", inside[j], inside[k], T=Type("bool")) for j in range(k + 1, depth)]
        inside[k + 1 :] = [f"s{k}_{j}:1" for j in range(k + 1, depth)]
        x = f"s{k}:1"
    for k in reversed(range(depth)):
        nodes += [
            node(f"yes{k}", "Neg", x, T=F32),
            node(f"no{k}", "Abs", f"s{k}", T=F32),
            merge(f"y{k}", f"no{k}", f"yes{k}"),
        ]
        x = f"y{k}"
    for flag, want in ((False, X * (-1) ** depth), (True, np.abs(X))):
        got = run(write(tmp_path, *nodes), {"x": X, "flag": np.array(flag)}, tmp_path / str(flag), "--outputs=y0")
        close(got["y0"], want)


def test_switch_without_a_condition(tmp_path: pathlib.Path) -> None:
    nodes = [
        placeholder("x", (2, 3)),
        node("s", "Switch", "x", T=F32),
        node("yes", "Neg", "s:1", T=F32),
        merge("y", "s", "yes"),
    ]
    assert "Switch" in refused(write(tmp_path, *nodes), "--outputs=y")


@pytest.mark.parametrize(
    "op", "Switch RefSwitch _SwitchN _SwitchRefN Merge RefMerge Enter RefNextIteration RefExit".split()
)
def test_control_flow_without_inputs(tmp_path: pathlib.Path, op: str) -> None:
    message = refused(
        write(tmp_path, placeholder("x", (2, 3)), node("bare", op, num_outs=3), node("y", "Neg", "x", T=F32))
    )
    assert "bare" in message and op in message
