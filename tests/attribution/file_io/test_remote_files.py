"""Models, data and results on a store of objects: copies are whole, made once, and put back."""

import concurrent.futures
import io
import json
import pathlib
import sys
import tempfile

import pytest
from absl import flags

from attribution.cli.run import execute
from attribution.errors import BadInput
from attribution.file_io import remote_files
from attribution.file_io.files import write_whole
from attribution_benchmarks.cli.bundled_models import default_model, shown_model
from attribution_benchmarks.core.store import ScoreStore

ADDRESS = "toy://bucket/data"
FILES = {"a.json": b"{}", "below/b.bin": bytes(range(256)) * 400, "below/deep/c": b""}


@pytest.fixture
def store(object_store, tmp_path, monkeypatch):
    monkeypatch.setenv("ATTRIBUTION_BENCHMARKS_CACHE", str(tmp_path / "cache"))
    object_store.objects.clear()
    object_store.objects.update({f"{ADDRESS}/{name}": content for name, content in FILES.items()})
    object_store.objects["toy://bucket/database"] = b"of others"
    opened = []
    whole = object_store.open
    monkeypatch.setattr(object_store, "open", lambda self, path, *_, **__: (opened.append(path), whole(self, path))[1])
    object_store.opened = opened
    return object_store


def content(directory):
    found = (path for path in pathlib.Path(directory).rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}


def test_a_directory_is_fetched_whole_and_once(store):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        copies = set(pool.map(remote_files.fetched, [ADDRESS, f"{ADDRESS}/"] * 4))
    (copy,) = copies
    assert content(copy) == FILES and pathlib.Path(copy).name == "data"
    assert sorted(store.opened) == [f"{ADDRESS}/{name}" for name in sorted(FILES)]
    assert remote_files.origin(copy) == shown_model(pathlib.Path(copy)) == ADDRESS
    assert remote_files.origin("/some/path") == "/some/path"


@pytest.mark.parametrize("change", ["time", "size", "name"])
def test_what_has_changed_is_fetched_again(store, change):
    before = remote_files.fetched(ADDRESS)
    if change == "time":
        store.times[f"{ADDRESS}/a.json"] = 5.0
    elif change == "size":
        store.objects[f"{ADDRESS}/a.json"] = b"{ }"
    else:
        store.objects[f"{ADDRESS}/d"] = b""
    after = remote_files.fetched(ADDRESS)
    assert after != before and len(content(after)) == len(FILES) + (change == "name")
    store.times.clear()


def test_a_file_that_is_cut_off_leaves_no_copy(store, monkeypatch, tmp_path):
    def cut_off(self, path, *options):
        return io.BytesIO(self.objects[path][:9])

    monkeypatch.setattr(store, "open", cut_off)
    with pytest.raises(BadInput, match=r"below/b\.bin did not come whole"):
        remote_files.fetched(ADDRESS)
    monkeypatch.undo()
    monkeypatch.setenv("ATTRIBUTION_BENCHMARKS_CACHE", str(tmp_path / "cache"))
    assert content(remote_files.fetched(ADDRESS)) == FILES


def test_a_name_that_leads_out_of_the_copy_is_refused(store, tmp_path):
    store.objects[f"{ADDRESS}/../../../../evil"] = b"x"
    with pytest.raises(BadInput, match=r"names '\.\./.*evil', which is no file in"):
        remote_files.fetched(ADDRESS)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name in ("evil", "a.json")]


def command(**defaults):
    flag_values = flags.FlagValues()
    for name in ("model", "data_dir", "output", "input_scores", "scores_dir", "runner"):
        flags.DEFINE_string(name, defaults.get(name, ""), "", flag_values=flag_values)
    return flag_values


def test_several_models_are_fetched_each(store, capsys):
    flag_values, seen = command(), []
    flags.DEFINE_list("models", [], "", flag_values=flag_values)
    given = f"--models=/here,{ADDRESS},first={ADDRESS}"
    assert (
        execute(
            lambda given: seen.append([given.models, remote_files.written(given["models"])]),
            flag_values,
            "",
            ["x", given],
        )
        == 0
    )
    (((here, one, other), text),) = seen
    assert here == "/here" and content(one) == FILES and other == f"first={one}" and text == given
    assert flag_values.models == ["/here", ADDRESS, f"first={ADDRESS}"]
    capsys.readouterr()


def kept(store):
    """Return the records of the one series in the store of objects."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "scores.sqlite").write_bytes(store.objects["toy://bucket/scores/scores.sqlite"])
        (series,) = ScoreStore(folder).contents().values()
    return series


def test_results_are_put_whole_and_a_store_of_scores_grows(store, capsys):
    flag_values = command()
    seen = []

    def main(given):
        seen.append((given.output, given.scores_dir, given.model))
        ScoreStore(given.scores_dir).series(method="m").append({f"input {len(seen)}": len(seen)})
        if given.runner == "fails":
            raise BadInput("no more")
        write_whole(given.output, "table")

    arguments = ["x", "--output=toy://bucket/out/t.csv", "--scores_dir=toy://bucket/scores", f"--model={ADDRESS}"]
    assert execute(main, flag_values, "", arguments) == 0
    output, scores, model = map(pathlib.Path, seen[0])
    assert output.name == "t.csv" and not output.parent.exists() and content(model) == FILES
    assert flag_values.output == "toy://bucket/out/t.csv" and flag_values.model == ADDRESS
    assert store.objects["toy://bucket/out/t.csv"] == b"table"
    assert kept(store) == {"input 1": 1}
    del store.objects["toy://bucket/out/t.csv"]
    assert execute(main, flag_values, "", [*arguments, "--runner=fails"]) == 2
    assert "toy://bucket/out/t.csv" not in store.objects  # nothing half-written, but what was computed is kept
    assert kept(store) == {"input 1": 1, "input 2": 2}
    with tempfile.TemporaryDirectory() as folder:  # another machine that has scored meanwhile
        ScoreStore(folder).series(method="m").append({"input 3": 99, "other": 4})
        ScoreStore(folder).query("VACUUM INTO ?", (f"{folder}/whole",))
        store.objects["toy://bucket/scores/scores.sqlite"] = pathlib.Path(folder, "whole").read_bytes()
    assert execute(main, flag_values, "", arguments) == 0
    assert scores == pathlib.Path(seen[-1][1])
    assert kept(store) == {"input 3": 99, "other": 4, "input 1": 1, "input 2": 2}
    capsys.readouterr()


@pytest.mark.parametrize("arguments, said", [
    (["--model=toy://bucket/none"], "--model=toy://bucket/none: there are no files; name a directory"),
    (["--model=nosuch://bucket/x"], "--model=nosuch://bucket/x cannot be used (Unable to get filesystem"),
    (["--data_dir=hdfs://server/x"], "--data_dir=hdfs://server/x: hdfs:// is for --blocks_dir alone"),
    (["--output=hdfs://server/x.csv"], "--output=hdfs://server/x.csv: hdfs:// is for --blocks_dir alone"),
    (["--scores_dir=nosuch://bucket/x"], "--scores_dir=nosuch://bucket/x cannot be used"),
])  # fmt: skip
def test_what_cannot_be_reached_is_one_line(store, arguments, said, capsys):
    assert execute(lambda given: None, command(), "", ["x", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 1


def test_without_beam_the_line_says_how_to_install_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    assert execute(lambda given: None, command(), "", ["x", "--model=gs://bucket/x"]) == 2
    assert capsys.readouterr().err == (
        "error: --model=gs://bucket/x needs Apache Beam: pip install 'attribution-benchmarks[beam]'\n"
    )


def test_a_benchmark_works_on_copies_and_prints_addresses(store, tmp_path, capsys):
    from attribution_benchmarks.beam.worker_factory import Door
    from attribution_benchmarks.core import evaluate

    network = default_model("attribution_benchmarks/exact/problems")
    store.objects.update({f"toy://bucket/net/{name}": whole for name, whole in content(network).items()})
    common = ["x", "--benchmark=exact", "--methods=gradient", "--num_imgs=9", "--batch_size=8"]
    beam = ["--runner=beam", "--block_size=8", "--scores_dir=toy://bucket/scores", "--output=toy://bucket/t.json"]
    assert (
        execute(evaluate.main, evaluate.FLAGS, "", [*common, f"--model={network}", f"--output={tmp_path / 't.json'}"])
        == 0
    )
    here = capsys.readouterr().out
    assert execute(evaluate.main, evaluate.FLAGS, "", [*common, "--model=toy://bucket/net", *beam]) == 0
    assert capsys.readouterr().out == here.replace(str(network), "toy://bucket/net")
    one, other = json.loads((tmp_path / "t.json").read_text()), json.loads(store.objects["toy://bucket/t.json"])
    manifest = other.pop("manifest")
    assert one.pop("manifest")["models"][str(network)] == manifest["models"]["toy://bucket/net"]
    assert one == other and "--model=toy://bucket/net" in manifest["command"]
    made = Door("attribution_benchmarks.core.evaluate", (*common[1:], "--model=toy://bucket/net"))()  # as in a worker
    assert made("exact").run.explainer.model.fingerprint == manifest["models"]["toy://bucket/net"]
    places = {path.rpartition("/")[0] for path in store.objects if path.startswith("toy://bucket/scores")}
    assert "toy://bucket/scores" in places and any("scores/blocks/" in place for place in places)
