"""Models, data and results on a store of objects: copies are whole, made once, and put back."""

import concurrent.futures
import json
import pathlib
import re
import sys
import tempfile

import fsspec
import pytest
from absl import flags

from attribution import remote_files
from attribution.cli import execute
from attribution.errors import BadInput
from attribution.files import atomic_write
from attribution_benchmarks.core.bundled_models import default_model, shown_model
from attribution_benchmarks.core.store import ScoreStore

ADDRESS = "memory://bucket/data"
FILES = {"a.json": b"{}", "below/b.bin": bytes(range(256)) * 400, "below/deep/c": b""}


@pytest.fixture
def store(tmp_path, monkeypatch):
    """An object store in memory that counts the files that are read."""
    monkeypatch.setenv("ATTRIBUTION_BENCHMARKS_CACHE", str(tmp_path / "cache"))
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    for name, data in FILES.items():
        memory.pipe_file(f"{ADDRESS}/{name}", data)
    memory.pipe_file("memory://bucket/database", b"of others")
    read, get_file = [], type(memory).get_file  # instances belong to threads

    def counted(self, path, *arguments, **options):
        read.append(path)
        return get_file(self, path, *arguments, **options)

    monkeypatch.setattr(type(memory), "get_file", counted)
    memory.read = read
    yield memory
    memory.store.clear()


def content(directory):
    found = (path for path in pathlib.Path(directory).rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}


def test_a_directory_is_fetched_whole_and_once(store):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        copies = set(pool.map(remote_files.stage, [ADDRESS, f"{ADDRESS}/"] * 4))
    (copy,) = copies
    assert content(copy) == FILES and pathlib.Path(copy).name == "data"
    assert sorted(store.read) == [f"/bucket/data/{name}" for name in sorted(FILES)]
    assert remote_files.origin(copy) == shown_model(pathlib.Path(copy)) == ADDRESS
    assert remote_files.origin("/some/path") == "/some/path"


@pytest.mark.parametrize("change", ["time", "size", "name"])
def test_what_has_changed_is_fetched_again(store, change):
    before = remote_files.stage(ADDRESS)
    if change == "time":
        store.pipe_file(f"{ADDRESS}/a.json", FILES["a.json"])
    elif change == "size":
        store.pipe_file(f"{ADDRESS}/a.json", b"{ }")
    else:
        store.pipe_file(f"{ADDRESS}/d", b"")
    after = remote_files.stage(ADDRESS)
    assert after != before and len(content(after)) == len(FILES) + (change == "name")


def test_a_file_that_is_cut_off_leaves_no_copy(store, monkeypatch, tmp_path):
    def cut_off(self, path, target, **options):
        pathlib.Path(target).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(target).write_bytes(store.cat_file(path)[:9])

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "get_file", cut_off)
        with pytest.raises(BadInput, match=r"below/b\.bin was copied incompletely"):
            remote_files.stage(ADDRESS)
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert content(remote_files.stage(ADDRESS)) == FILES


def test_a_name_that_leads_out_of_the_copy_is_refused(store, tmp_path):
    store.pipe_file(f"{ADDRESS}/../../../../evil", b"x")
    with pytest.raises(BadInput, match=r"names '\.\./.*evil', which is not a file in"):
        remote_files.stage(ADDRESS)
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
            lambda given: seen.append([given.models, remote_files.with_addresses(given["models"].serialize())]),
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
        pathlib.Path(folder, "scores.sqlite").write_bytes(store.cat_file("memory://bucket/scores/scores.sqlite"))
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
        atomic_write(given.output, "table")

    arguments = ["x", "--output=memory://bucket/out/t.csv", "--scores_dir=memory://bucket/scores", f"--model={ADDRESS}"]
    assert execute(main, flag_values, "", arguments) == 0
    output, scores, model = map(pathlib.Path, seen[0])
    assert output.name == "t.csv" and not output.parent.exists() and content(model) == FILES
    assert flag_values.output == "memory://bucket/out/t.csv" and flag_values.model == ADDRESS
    assert store.cat_file("memory://bucket/out/t.csv") == b"table"
    assert kept(store) == {"input 1": 1}
    store.rm_file("memory://bucket/out/t.csv")
    assert execute(main, flag_values, "", [*arguments, "--runner=fails"]) == 2
    assert not store.exists("memory://bucket/out/t.csv")  # nothing half-written, but what was computed is kept
    assert kept(store) == {"input 1": 1, "input 2": 2}
    with tempfile.TemporaryDirectory() as folder:  # another machine that has scored meanwhile
        ScoreStore(folder).series(method="m").append({"input 3": 99, "other": 4})
        ScoreStore(folder).query("VACUUM INTO ?", (f"{folder}/whole",))
        store.pipe_file("memory://bucket/scores/scores.sqlite", pathlib.Path(folder, "whole").read_bytes())
    assert execute(main, flag_values, "", arguments) == 0
    assert scores == pathlib.Path(seen[-1][1])
    assert kept(store) == {"input 3": 99, "other": 4, "input 1": 1, "input 2": 2}
    capsys.readouterr()


@pytest.mark.parametrize("arguments, said", [
    (["--model=memory://bucket/none"], "--model=memory://bucket/none: there are no files; name a directory"),
    (["--model=nosuch://bucket/x"], "--model=nosuch://bucket/x cannot be used (Protocol not known"),
    (["--data_dir=hdfs://server/x"], "--data_dir=hdfs://server/x: hdfs:// is for --blocks_dir only"),
    (["--output=hdfs://server/x.csv"], "--output=hdfs://server/x.csv: hdfs:// is for --blocks_dir only"),
    (["--scores_dir=nosuch://bucket/x"], "--scores_dir=nosuch://bucket/x cannot be used"),
])  # fmt: skip
def test_what_cannot_be_reached_is_one_line(store, arguments, said, capsys):
    assert execute(lambda given: None, command(), "", ["x", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 1


def test_a_missing_client_is_reported_with_its_installation(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    assert execute(lambda given: None, command(), "", ["x", "--model=gs://bucket/x"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: --model=gs://bucket/x: ") and error.count("\n") == 1
    assert re.search(r": pip install 'gcsfs[^']*' 's3fs[^']*'\n$", error)


def test_a_benchmark_works_on_copies_and_prints_addresses(store, tmp_path, capsys):
    from attribution_benchmarks.core import evaluate

    network, table = default_model("exact/problems"), tmp_path / "t.json"
    store.put(str(network), "memory://bucket/net", recursive=True)
    common = ["x", "--benchmark=exact", "--methods=gradient", "--num_imgs=9", "--batch_size=8"]
    remote = ["--model=memory://bucket/net", "--scores_dir=memory://bucket/scores", "--output=memory://bucket/t.json"]
    assert execute(evaluate.main, evaluate.FLAGS, "", [*common, f"--model={network}", f"--output={table}"]) == 0
    here = capsys.readouterr().out
    assert execute(evaluate.main, evaluate.FLAGS, "", [*common, *remote]) == 0
    assert capsys.readouterr().out == here.replace(str(network), "memory://bucket/net")
    one, other = json.loads(table.read_text()), json.loads(store.cat_file("memory://bucket/t.json"))
    manifest = other.pop("manifest")
    assert one.pop("manifest")["models"][str(network)] == manifest["models"]["memory://bucket/net"]
    assert one == other and "--model=memory://bucket/net" in manifest["command"]
    assert store.exists("memory://bucket/scores/scores.sqlite")
