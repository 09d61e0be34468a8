"""Try random operations and damaged SavedModels: what the check lets pass opens no file, socket or process.

    python tests/faults/fuzz_models.py --draws=8 --files=300 --seed=0

Each operation of TensorFlow is drawn several times with random attributes and inputs. Those that
``attribution.model.op_allowlist`` allows are run in a process whose system calls are watched (``jail.py``). With
``--refused``, those that it refuses run instead, which shows that the watch works. Exit code 1 with any call that is
not of Python's or TensorFlow's own libraries. Operations that crash are counted: TensorFlow is not free of mistakes.
"""

from __future__ import annotations

import argparse
import collections
import functools
import multiprocessing
import os
import pathlib
import re
import shutil
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import jail
import random_nodes
import tensorflow as tf
from tensorflow.compiler.mlir.stablehlo import stablehlo
from tensorflow.compiler.tf2xla.python import xla
from tensorflow.core.protobuf import saved_model_pb2

import attribution
from attribution.errors import BadInput
from attribution.files import cache_directory
from attribution.model import op_allowlist, saved_model

TOP = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = (sys.prefix, sys.base_prefix, "/usr/lib", "/lib", "/sys/", "/proc/cpuinfo", "/etc/ld.so.cache",
             "/dev/urandom")  # fmt: skip
THREAD = re.compile(r"openat( w)? /proc/self/task/\d+/(comm|maps)")  # a thread's name, and its stack after a crash
SECONDS = 6  # for one draw
# Half of the operations that are inserted into files; the check refuses them, or some of their attributes.
OPENING = ("ReadFile", "WriteFile", "MatchingFiles", "ImmutableConst", "Save", "SaveV2", "RestoreV2", "DecodeProtoV2",
           "PrintV2", "DebugIdentity", "DumpTensor", "LookupTableExportV2", "XlaCallModule", "PyFunc")  # fmt: skip
v1 = tf.compat.v1


def is_of_libraries(call: str) -> bool:
    """Return whether a call reads what Python or TensorFlow may read at any time, or is of our own cache."""
    kind, _, path = call.partition(" ")
    reads = kind == "openat" and path.startswith(LIBRARIES)
    return reads or str(cache_directory("modules")) in path or THREAD.fullmatch(call) is not None


def run_graph(graph) -> None:
    """Run the last node of a graph, without its outputs."""
    with tf.Graph().as_default() as built:
        tf.import_graph_def(graph, name="")
        options = v1.ConfigProto(operation_timeout_in_ms=3000)
        with v1.Session(graph=built, config=options) as session:
            session.run(built.get_operation_by_name(graph.node[-1].name))


def is_allowed(nodes) -> bool:
    """Return whether the check lets nodes pass."""
    try:
        op_allowlist.check("drawn", {"the graph": nodes}, {random_nodes.FUNCTION})
    except BadInput:
        return False
    return True


class Fuzz:
    """Runs of draws in watched processes, and what they did.

    Attributes
    ----------
    ran : set of str
        Draws that ran without an error, as "name/number".
    ended : list of str
        Draws that ended the process, or did not end, with the exit code.
    calls : dict
        Name to the calls of its draws that are not allowed.
    """

    def __init__(self):
        self.ran, self.ended, self.calls = set(), [], collections.defaultdict(set)

    def run(self, draws: list[tuple[str, int]], run_draw, allowed) -> None:
        """Run draws, each a name and a number, in one process after the other: a crash ends one."""
        while draws:
            run_all = functools.partial(_run_all, draws, run_draw)
            code, steps, calls = jail.run(_warm, run_all, allowed, SECONDS)
            self.ran |= {step.removesuffix("/ran") for step in steps if step.endswith("/ran")}
            for step, call in calls:
                self.calls[step.partition("/")[0]].add(call)
            if not steps[-1]:
                return
            name, number = steps[-1].split("/")[:2]
            self.ended.append(f"{name}/{number} ({code})")
            draws = draws[draws.index((name, int(number))) + 1 :]

    def report(self, what: str, number: int, names: int) -> None:
        """Print what happened, the calls to standard error."""
        ran = {draw.partition("/")[0] for draw in self.ran}
        print(f"{what}: {number} draws of {names} kinds; {len(self.ran)} draws of {len(ran)} kinds ran, "
              f"{len(self.ended)} crashed or did not end, {len(self.calls)} kinds opened something")  # fmt: skip
        for name, calls in sorted(self.calls.items()):
            print(f"{what}: {name}: {', '.join(sorted(calls)[:4])}", file=sys.stderr)


def _run_all(draws, run_draw, step):
    for name, number in draws:
        step(f"{name}/{number}")
        try:
            run_draw(name, number)
        except Exception:  # of any kind: the input is nonsense
            continue
        step(f"{name}/{number}/ran")


def _warm():
    """Let TensorFlow and this project read what they read once."""
    tf.config.threading.set_intra_op_parallelism_threads(2)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    run_graph(random_nodes.graph_of(random_nodes.Nodes("warm", "x").drawn("NoOp", "warm")))
    tf.function(lambda x: x + 1)(tf.zeros(3))
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)


def fuzz_operations(seed: int, draws: int, target: str, refused: bool, names: list[str]) -> Fuzz:
    """Run drawn operations that the check allows, or refuses, of all names or of some."""

    def nodes(operation, number):
        return random_nodes.Nodes(f"{seed}/{operation}/{number}", target).drawn(operation, "drawn")

    known = sorted(name for name in names or random_nodes.operations() if random_nodes.types_of_kernels(name))
    wanted = [(name, number) for name in known for number in range(draws) if is_allowed(nodes(name, number)) != refused]
    fuzz = Fuzz()
    fuzz.run(wanted, lambda name, number: run_graph(random_nodes.graph_of(nodes(name, number))), is_of_libraries)
    fuzz.report("refused operations" if refused else "operations", len(wanted), len({name for name, _ in wanted}))
    return fuzz


def write_models(directory: pathlib.Path) -> None:
    """Write a SavedModel with a table, a custom gradient, control flow and an XLA module, and one of TensorFlow 1."""
    words = directory / "words.txt"
    words.write_text("a 1\nb 2\n")
    body = "%y = stablehlo.sine %x : tensor<f32>  func.return %y : tensor<f32>"
    text = f"func.func @main(%x: tensor<f32>) -> tensor<f32> {{ {body} }}"
    version = stablehlo.get_current_version()
    program = stablehlo.serialize_portable_artifact_str(text.encode(), version)
    initializer = tf.lookup.TextFileInitializer(str(words), tf.string, 0, tf.int64, 1, delimiter=" ")
    module = tf.Module()
    module.table, module.kernel = tf.lookup.StaticHashTable(initializer, 0), tf.Variable(tf.ones((3, 2)))

    @tf.custom_gradient
    def doubled(x):
        return 2 * x, lambda upstream: 2 * tf.identity(upstream)

    def scores(x):
        found = tf.cast(module.table.lookup(tf.constant("a")), tf.float32)
        (sine,) = xla.call_module([1.0], version=9, module=program, Sout=[()], Tout=[tf.float32], platforms=["CPU"])
        x = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.exp(x), lambda: doubled(x)) + found + sine
        x = tf.while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, tf.nn.relu(x)), (0, x))[1]
        return {"scores": x @ module.kernel}

    served = tf.function(scores, [tf.TensorSpec((None, 3), name="x")])
    tf.saved_model.save(module, str(directory / "objects"), signatures=served)
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, (None, 3), "x")
        initializer = tf.lookup.TextFileInitializer(str(words), tf.string, 0, tf.int64, 1, delimiter=" ")
        found = tf.cast(tf.lookup.StaticHashTable(initializer, 0).lookup(tf.constant("a")), tf.float32)
        y = tf.matmul(x + found, v1.get_variable("w", (3, 2)), name="scores")
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        signature = v1.saved_model.predict_signature_def({"x": x}, {"scores": y})
        builder = v1.saved_model.Builder(str(directory / "graph"))
        builder.add_meta_graph_and_variables(
            session, ["serve"], {"serving_default": signature}, main_op=v1.tables_initializer(),
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
        )  # fmt: skip
        builder.save()


class Damage:
    """Random changes of a SavedModel's message.

    Parameters
    ----------
    seed, target
        As for ``random_nodes.Nodes``.
    only_insert
        Whether each change inserts an operation that opens something.
    """

    def __init__(self, seed: str, target: str, only_insert: bool):
        self.nodes = random_nodes.Nodes(seed, target)
        self.random, self.target, self.only_insert = self.nodes.random, target, only_insert
        others = [self._attribute, self._attribute, self._operation, self._function, self._asset, self._object]
        self.changes = [self._insert] * 3 + ([] if only_insert else [*others, self._name])

    def apply(self, content: bytes) -> bytes:
        """Return a message with one to three changes."""
        message = saved_model_pb2.SavedModel.FromString(content)
        self.graph = message.meta_graphs[0]
        self.library = self.graph.graph_def.library
        self.library.function.extend(random_nodes.graph_of([]).library.function)
        bodies = [function.node_def for function in self.library.function] + [self.graph.graph_def.node]
        self.bodies = [body for body in bodies if body]
        for _ in range(self.random.choice((1, 1, 2, 3))):
            self.random.choice(self.changes)()
        return message.SerializeToString()

    def _node(self):
        return self.random.choice(self.random.choice(self.bodies))

    def _insert(self):
        """Let a node wait for a random operation, half of the time one that computes the scores."""
        last = [(body, node) for body in self.bodies for node in body if node.op == "MatMul"]
        body = self.random.choice(self.bodies)
        body, waiting = self.random.choice([*last, (body, self.random.choice(body))])
        known = [name for name in self.nodes.operations if random_nodes.types_of_kernels(name)]
        operation = self.random.choice(OPENING if self.only_insert or self.random.random() < 0.5 else known)
        nodes = self.nodes.drawn(operation, f"drawn{self.random.randrange(10**6)}", ())
        if body is not self.graph.graph_def.node:
            for node in nodes:  # a function names the output of a node too
                outputs = [self.nodes.operations[each.op].output_arg for each in nodes if each.name in node.input]
                node.input[:] = [
                    f"{name}:{output[0].name}:0" for name, output in zip(node.input, outputs, strict=True) if output
                ]
        waiting.input.append(f"^{nodes[-1].name}")
        body.extend(nodes)

    def _attribute(self):
        """Change an attribute of a node."""
        node = self._node()
        definition = self.nodes.operations.get(node.op)
        if definition and definition.attr:
            attribute = self.random.choice(definition.attr)
            node.attr[attribute.name].Clear()
            if self.random.random() < 0.1:
                node.attr[attribute.name].placeholder = "given"
            else:
                self.nodes.set_attribute(node.attr[attribute.name], attribute)

    def _operation(self):
        """Let a node run another operation with as many inputs, or a function."""
        node = self._node()
        same = [each.name for each in self.nodes.operations.values() if len(each.input_arg) == len(node.input)]
        node.op = self.random.choice([*same, *(function.signature.name for function in self.library.function)])

    def _function(self):
        """Let an attribute or a gradient name another function."""
        names = [function.signature.name for function in self.library.function]
        named = [value.func for body in self.bodies for node in body for value in node.attr.values()
                 if value.HasField("func")]  # fmt: skip
        for gradient in self.library.registered_gradients:
            gradient.gradient_func = self.random.choice(names)
        if named:
            self.random.choice(named).name = self.random.choice(names)

    def _asset(self):
        """Let an asset be a file elsewhere."""
        for asset in self.graph.asset_file_def:
            asset.filename = self.random.choice((self.target, "../../../target/file", "..", "", "words.txt"))

    def _object(self):
        """Let an object refer to others, or be of another kind."""
        objects = self.graph.object_graph_def.nodes
        if objects:
            node = self.random.choice(objects)
            for child in node.children:
                child.node_id = self.random.randrange(len(objects))
            if self.random.random() < 0.3:
                node.CopyFrom(self.random.choice(objects))

    def _name(self):
        """Let a name of the file's be that of another node."""
        name = self._node().name
        saver, tensors = self.graph.saver_def, self.graph.signature_def["serving_default"].outputs.values()
        saver.restore_op_name = self.random.choice((saver.restore_op_name, name))
        saver.filename_tensor_name = self.random.choice((saver.filename_tensor_name, f"{name}:0"))
        for tensor in tensors:
            tensor.name = self.random.choice((tensor.name, f"{name}:0"))


def fuzz_files(seed: int, files: int, directory: pathlib.Path, trust: bool) -> Fuzz:
    """Load damaged SavedModels and compute their scores and gradients."""
    target = str(directory / "target" / "file")
    context = multiprocessing.get_context("fork")  # TensorFlow has started no thread here
    writer = context.Process(target=write_models, args=(directory,))
    writer.start()
    writer.join()
    wanted = [(name, number) for number in range(files) for name in ("objects", "graph")]
    for name, number in wanted:
        copy = directory / "models" / name / str(number)
        shutil.copytree(directory / name, copy, copy_function=os.link)
        content, damage = (copy / "saved_model.pb").read_bytes(), Damage(f"{seed}/{name}/{number}", target, trust)
        (copy / "saved_model.pb").unlink()
        (copy / "saved_model.pb").write_bytes(damage.apply(content) if number else content)

    def use(name, number):
        with op_allowlist.trusted(trust):
            path = directory / "models" / name / str(number)
            x = tf.zeros((2, 3))
            loaded = saved_model.load(path)
            with tf.GradientTape() as tape:
                tape.watch(x)
                scores = loaded.signatures["serving_default"](x)["scores"]
            tape.gradient(scores, x)
            attribution.explain("gradient", attribution.load_model(path), x.numpy(), [0, 1])

    def allowed(call):
        return (
            is_of_libraries(call)
            or call == "openat ."
            or call.startswith((f"openat {directory}/models/", f"openat {TOP}/"))
        )

    fuzz = Fuzz()
    fuzz.run(wanted, use, allowed)
    fuzz.report("trusted files" if trust else "files", len(wanted), 2)
    return fuzz


def main() -> int:
    """Fuzz, report, and return 1 with any call that is not allowed."""
    cache_directory("modules").mkdir(parents=True, exist_ok=True)  # where loading remembers what it compared
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag, default in (("draws", 8), ("files", 300), ("seed", 0)):
        parser.add_argument(f"--{flag}", type=int, default=default)
    parser.add_argument("--refused", action="store_true", help="run what the check refuses")
    parser.add_argument("--operations", nargs="*", default=[], help="names; all by default")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fuzz_") as directory:
        place = pathlib.Path(directory)
        (place / "target").mkdir()
        (place / "target" / "file").write_text("secret 1\n")
        target = str(place / "target" / "file")
        found = [fuzz_operations(given.seed, given.draws, target, given.refused, given.operations)]
        found.append(fuzz_files(given.seed, given.files, place, given.refused))
    return 1 if any(fuzz.calls for fuzz in found) else 0


if __name__ == "__main__":
    sys.exit(main())
