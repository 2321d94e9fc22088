"""buckets.yaml: strict reading with places, writing that gives back what was read, a current JSON Schema."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pytest

from prebake.pgo.buckets_text import dump_buckets, parse_buckets, read_buckets
from prebake.pgo.json_schema import json_schema
from prebake.pgo.remarks import Remark
from prebake.pgo.schema import UNBOUNDED, Bucket, BucketsFile, FunctionBuckets, RecordedSignature, Recordings, file_stem
from prebake.vm.errors import ConfigError
from prebake.vm.plan.signature import Row, Signature

GOOD = '''# owned by the search team
version: 1
functions:
  # the ranking model
  "models.risk:score":
    symbols: {b: "x.shape[0]", d: ["x.shape[1]", "w.shape[0]"]}
    options: {disable_fusions: [row_softmax]}
    buckets:
      # nightly jobs
      - {b: [1, 32], d: 128}
      - {b: 64, d: 128, keep: true}  # asked for by ops
      - {b: [65, inf], signature: 1, gain: {wider: 1.50, tape: 2.00}}
  "models.risk:Model.run":
    buckets: []
'''


def test_reading_gives_the_content():
    config = parse_buckets(GOOD)
    score, other = config.functions
    assert config.comments == ("owned by the search team",) and score.comments == ("the ranking model",)
    assert score.symbols == {"b": ("x.shape[0]",), "d": ("x.shape[1]", "w.shape[0]")}
    assert list(score.options["disable_fusions"]) == ["row_softmax"]
    first, second, third = score.buckets
    assert first.extents == {"b": (1, 32), "d": (128, 128)} and first.comments == ("nightly jobs",)
    assert second.keep and second.tail == "asked for by ops"
    assert third.signature == 1 and third.extents == {"b": (65, UNBOUNDED)} and third.gain.wider == 1.5
    assert score.bounds(first) == {"x.shape[0]": (1, 32), "x.shape[1]": (128, 128), "w.shape[0]": (128, 128)}
    assert other.buckets == ()


def test_a_symbol_may_be_named_in_full():
    text = FUNCTION + '    buckets: [{b: 1, "x.shape[1]": [2, 3], "x.shape[0]": 1}]\n'
    assert parse_buckets(text).functions[0].buckets[0].extents == {"b": (1, 1), "d": (2, 3)}


def test_writing_gives_back_what_was_read():
    assert dump_buckets(parse_buckets(GOOD)) == GOOD


def test_our_own_notes_are_not_taken_for_the_readers():
    text = dump_buckets(parse_buckets(GOOD), {"": ["written by us"], "models.risk:score": ["12 calls"]})
    assert "#: written by us" in text and "  #: 12 calls" in text
    assert dump_buckets(parse_buckets(text)) == GOOD


def test_each_comment_is_given_to_one_entry():
    text = (HEAD + "    # above\n    buckets: [{}, # of one\n      {keep: true}]  # behind\n\n  # two\n"
            '  "m:g": {}  # g\n# the end\n')
    first, second = parse_buckets(text).functions
    assert first.remarks["buckets"] == Remark(("above",), "behind") and first.buckets[0].comments == ()
    assert (first.buckets[0].tail, first.buckets[1].tail) == ("of one", "")
    assert second.comments == ("two",) and second.remarks[""].tail == "g"
    assert parse_buckets(text).remarks["end"].above == ("the end",)
    again = dump_buckets(parse_buckets(text))
    assert all(again.count(f"# {word}\n") == 1 for word in ("above", "behind", "of one", "two", "g", "the end"))
    assert dump_buckets(parse_buckets(again)) == again


def test_long_symbols_stand_one_a_line_and_read_back():
    symbols = {f"s{i}": (f"self.layers[{i}].w.shape[0]", f"self.layers[{i}].w.shape[1]") for i in range(4)}
    config = BucketsFile(Path("b.yaml"), (FunctionBuckets("m:f", symbols, {}, (Bucket({"s0": (1, 2)}),)),))
    text = dump_buckets(config)
    assert max(map(len, text.splitlines())) <= 110
    assert parse_buckets(text).functions[0].symbols == symbols


HEAD = 'version: 1\nfunctions:\n  "m:f":\n'
FUNCTION = HEAD + '    symbols: {b: "x.shape[0]", d: "x.shape[1]"}\n'
BAD = [
    ("version: 1\nfuncions: {}\n", 2, 1, "funcions", "did you mean 'functions'?"),
    ("functions: {}\n", 1, 1, "version", "is missing"),
    ("version: 2\n", 1, 10, "version", "version 2 is not known"),
    ("version: '1'\n", 1, 10, "version", "a whole number is expected"),
    ("version: 1\nfunctions: [a]\n", 2, 12, "functions", "a mapping is expected here, not a list"),
    (HEAD + "    bucket: []\n", 4, 5, "functions.m:f.bucket", "did you mean 'buckets'?"),
    (FUNCTION + "    buckets: [{b: 1, c: 2}]\n", 5, 22, "functions.m:f.buckets[0].c", "known here: b, d, gain, keep"),
    (FUNCTION + '    buckets: [{b: 1, "x.shape[0]": 2}]\n', 5, 22, "functions.m:f.buckets[0].x.shape[0]",
     "the same as 'b'"),
    (FUNCTION + "    buckets: [{b: [3, 1]}]\n", 5, 19, "functions.m:f.buckets[0].b", "the range [3, 1] is empty"),
    (FUNCTION + "    buckets: [{b: [1, 2, 3]}]\n", 5, 19, "functions.m:f.buckets[0].b", "two bounds, not 3"),
    (FUNCTION + "    buckets: [{b: -1}]\n", 5, 19, "functions.m:f.buckets[0].b", "-1 is no extent"),
    (FUNCTION + "    buckets: [{b: 1.5}]\n", 5, 19, "functions.m:f.buckets[0].b", "an extent"),
    (FUNCTION + "    buckets: [{b: true}]\n", 5, 19, "functions.m:f.buckets[0].b", "an extent"),
    (FUNCTION + "    buckets: [{b: inf}]\n", 5, 19, "functions.m:f.buckets[0].b", "only the upper bound"),
    (FUNCTION + "    buckets: [{b: 1, b: 2}]\n", 5, 22, "functions.m:f.buckets[0].b", "given twice"),
    (FUNCTION + "    buckets: [{b: 1, keep: 3}]\n", 5, 28, "functions.m:f.buckets[0].keep", "true or false"),
    (FUNCTION + "    buckets: [{b: 1, gain: {wide: 1}}]\n", 5, 29, "functions.m:f.buckets[0].gain.wide",
     "did you mean 'wider'?"),
    (FUNCTION + "    options: {strickt: true}\n", 5, 15, "functions.m:f.options.strickt", "did you mean 'strict'?"),
    (FUNCTION + "    options: {strict: 7}\n", 5, 23, "functions.m:f.options.strict", "true or false"),
    (HEAD + '    symbols: {keep: "x.shape[0]"}\n', 4, 15, "functions.m:f.symbols.keep", "short name"),
    (HEAD + '    symbols: {a: "x.shape[0]", b: "x.shape[0]"}\n', 4, 35, "functions.m:f.symbols.b",
     "already called 'a'"),
    ("version: 1\nfunctions: {a: \n", 3, 1, "", "not YAML"),
    ("- 1\n", 1, 1, "", "a mapping is expected"),
]


@pytest.mark.parametrize(("text", "line", "column", "key", "said"), BAD)
def test_what_is_wrong_is_named_with_its_place(text, line, column, key, said):
    with pytest.raises(ConfigError) as caught:
        parse_buckets(text, "conf/b.yaml")
    error = caught.value
    assert (error.file, error.line, error.column, error.key) == ("conf/b.yaml", line, column, key), str(error)
    assert said in str(error) and str(error).startswith(f"conf/b.yaml:{line}:{column}: ")


def test_an_unreadable_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.yaml"):
        read_buckets(tmp_path / "nowhere.yaml")


def test_the_shipped_json_schema_is_current():
    shipped = json.loads((resources.files("prebake.configs") / "buckets.schema.json").read_text(encoding="utf-8"))
    assert shipped == json_schema(), "write it anew: python -m prebake.pgo.json_schema > configs/buckets.schema.json"


def test_the_json_schema_knows_every_option_and_word():
    from prebake.vm.options import OPTIONS

    function = json_schema()["properties"]["functions"]["additionalProperties"]["properties"]
    assert set(function["options"]["properties"]) == {name for name in OPTIONS if not OPTIONS[name].shared}
    assert set(function["buckets"]["items"]["properties"]) == {"signature", "keep", "gain"}


def test_file_stems_are_plain_and_different():
    names = ["a:b.c", "a.b:c", "a:f.<locals>.g", "a:f.locals.g", "a:é", "a:<lambda>"]
    stems = [file_stem(n) for n in names]
    assert len(set(stems)) == len(names)
    assert all(set(s) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-%") for s in stems)


def _recorded(*shapes):
    rows = (Row(how="arg", parent=-1, key=0, kind="array", path="x", dtype="f32", ndim=2, layout="C"),)
    sample = {"x.shape[0]": 9, "x.strides[0]": 36}
    return RecordedSignature(Signature(rows), ("x.shape[0]", "x.shape[1]"), shapes, sample)


def test_a_sample_lies_in_its_bucket():
    function = FunctionBuckets("m:f", {"b": ("x.shape[0]",), "d": ("x.shape[1]",)})
    recorded = _recorded(((3, 8), 5), ((40, 8), 9))
    assert function.sample(Bucket({"b": (1, 32)}), recorded)["x.shape[0]"] == 3
    assert function.sample(Bucket({"b": (33, 64)}), recorded)["x.shape[0]"] == 40
    by_hand = function.sample(Bucket({"b": (100, 200), "d": (16, 16)}), recorded)
    assert by_hand == {"x.shape[0]": 100, "x.shape[1]": 16, "x.strides[0]": 36}


@pytest.mark.parametrize(("buckets", "hidden"), [
    ("{b: 1}, {b: [1, 9]}", []), ("{b: [1, 9]}, {b: 1}", [(1, 0)]), ("{b: 1}, {b: 1}", [(1, 0)]),
    ("{b: [1, 9]}, {b: [5, 10]}, {b: [2, inf]}, {b: 9}", [(3, 0)]), ("{b: 1}, {b: 1, signature: 1}", []),
    ("{}, {b: 1}", [(1, 0)]), ("{b: [0, inf]}, {}", []), ("{d: 2}, {b: 1, d: 2}, {b: 1}", [(1, 0)])])
def test_buckets_that_are_never_reached(buckets, hidden):
    (function,) = parse_buckets(FUNCTION + f"    buckets: [{buckets}]\n").functions
    found = function.unreachable()
    places = [next(i for i, b in enumerate(function.buckets) if b is bucket) for pair in found for bucket in pair]
    assert list(zip(places[::2], places[1::2], strict=True)) == hidden


def test_recordings_give_back_what_was_written(tmp_path):
    made = Recordings("m:f", "d" * 32, (_recorded(((3, 8), 5)),), {"strict": True}, {"x": "b d"}, ("0 {b: 1}",), ())
    assert Recordings.from_bytes(made.to_bytes(), "m:f") == made
    with pytest.raises(ValueError, match="m:g"):
        Recordings.from_bytes(made.to_bytes(), "m:g")
    data = made.to_bytes()
    for length in range(0, len(data) - 3, 7):
        with pytest.raises(ValueError):
            Recordings.from_bytes(data[:length], "m:f")


def test_missing_neighbours_are_named_with_the_line_of_their_function(tmp_path):
    path = tmp_path / "b.yaml"
    path.write_text(GOOD)
    config = read_buckets(path)
    for load in (config.load_program, config.load_recordings):
        with pytest.raises(ConfigError, match=r"models\.risk-score") as caught:
            load(config.functions[0])
        assert caught.value.line == 5 and "commit" in str(caught.value)
