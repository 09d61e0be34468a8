"""Break each mechanism of reliability in a copy of the code, one at a time; some named test must fail.

    python tests/faults/mutations.py            # prints each mutation and how it was noticed
    python tests/faults/mutations.py fsync      # those with a word in their name

TensorFlow and pytest are imported once. A child is forked for each mutation; it imports the changed code and runs the
named tests. Four run at a time, each in its own copy of the code. Exit code 1 if a mutation is noticed by no test, or a
test fails without a mutation.
"""

from __future__ import annotations

import compileall
import contextlib
import dataclasses
import gc
import io
import os
import pathlib
import py_compile
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPIED = ("attribution", "attribution_benchmarks", "bim", "scripts", "svea", "tests")
LINKED = ("pyproject.toml", "saved_models")
PASSED = 100  # exit code of a child; one of pytest's is added
HOW = {PASSED: "", PASSED + 1: "failed", -signal.SIGALRM: "no end", 0: "os._exit(0)"}  # how a child ends
SECONDS = 8  # of one child, five times what most need; a test that waits longer, as on a pipe, counts as failed
AT_ONCE = 4  # children, some of which wait to the end


@dataclasses.dataclass(frozen=True)
class Mutation:
    """A change of one file that some test must notice.

    Attributes
    ----------
    name
        The mechanism that it breaks.
    file
        Relative to the repository.
    before, after
        Text that occurs once in the file, and its replacement.
    tests
        As pytest names them.
    """

    name: str
    file: str
    before: str
    after: str
    tests: Sequence[str]


def _of(file: str, tests: str, *changes: tuple[str, str, str, str]) -> list[Mutation]:
    """Return mutations of a file: name, text, replacement, and names of tests in one module, separated by spaces."""
    return [
        Mutation(name, file, before, after, [f"tests/{tests}::{test}" for test in names.split()])
        for name, before, after, names in changes
    ]


MUTATIONS = [
    *_of(
        "attribution/files.py",
        "attribution/test_files.py",
        ("atomic rename", "os.replace(temporary, path)", "path.write_bytes(temporary.read_bytes())",
         "test_a_file_is_on_the_disk_before_it_gets_its_name"),
        ("a file is written under a temporary name", 'io.FileIO(temporary, "r+b")', 'io.FileIO(path, "w+b")',
         "test_what_was_there_stays_if_the_writing_fails"),
        ("fsync of a file", "os.fsync(file.fileno())", "pass", "test_a_file_is_on_the_disk_before_it_gets_its_name"),
        ("fsync after flush", "stream.flush()\n", "\n", "test_a_file_is_on_the_disk_before_it_gets_its_name"),
        ("sync of a directory", "os.sync()", "pass", "test_a_directory_is_on_the_disk_before_it_gets_its_name"),
        ("unfinished versions are removed after a failure",
         "_remove(temporary)\n        if descriptor", "if descriptor",
         "test_what_was_there_stays_if_the_writing_fails"),
        ("orphans are removed by the next writer",
         "remove_stale(path.parent, recursive=False, prefix=_prefix(path))", "pass",
         "test_the_next_writer_removes_what_a_killed_one_left"),
        ("orphans are removed by the next owner of a directory", "remove_stale(directory)", "pass",
         "test_a_killed_process_locks_nothing_and_its_unfinished_files_below_are_removed"),
        ("orphans are removed from the system's temporary folder",
         "remove_stale(parent, recursive=False, prefix=prefix)", "pass",
         "test_the_next_writer_removes_what_a_killed_one_left"),
        ("only unfinished files are orphans", " and name.endswith(UNFINISHED)]", "]",
         "test_only_unfinished_paths_are_stale"),
        ("files of living writers are no orphans", "descriptor = _lock(path, exclusive=True)",
         "descriptor = os.open(path, os.O_RDONLY)", "test_the_next_writer_removes_what_a_killed_one_left"),
        ("writers lock what they write", "descriptor = _lock(temporary)", "descriptor = None",
         "test_the_next_writer_removes_what_a_killed_one_left"),
        ("temporary directories are locked", "descriptor = _lock(pathlib.Path(directory.name))", "descriptor = None",
         "test_the_next_writer_removes_what_a_killed_one_left"),
        ("a path removed before its lock is made again", "if temporary.exists():", "if True:",
         "test_a_path_that_is_removed_before_it_is_locked_is_made_again"),
        ("links are no orphans", "os.O_NOFOLLOW | ", "", "test_only_unfinished_paths_are_stale"),
        ("pipes are no orphans", " | os.O_NONBLOCK", "", "test_a_pipe_with_the_name_of_a_stale_file_blocks_nobody"),
        ("one process at a time", "lock.acquire(blocking=False)", "pass",
         "test_a_second_process_waits_for_a_locked_directory_and_says_so"),
        ("waiting is announced", "print_line(f\"waiting", "str(f\"waiting",
         "test_a_second_process_waits_for_a_locked_directory_and_says_so"),
        ("no lock file stays", "path.unlink()\n        lock", "pass\n        lock",
         "test_a_killed_process_locks_nothing_and_its_unfinished_files_below_are_removed"),
        ("a directory made meanwhile is not replaced", "if os.path.lexists(path) and not", "if False and not",
         "test_a_directory_is_complete_or_absent"),
        ("a directory that cannot be replaced is put back", "os.rename(old, path)", "pass",
         "test_a_directory_that_cannot_be_replaced_stays"),
        ("a directory is only replaced where there is one", "if not path.is_dir():\n        os.rename(new",
         "if False:\n        os.rename(new", "test_a_directory_is_complete_or_absent"),
        ("directories above a failed one are removed", "above.rmdir()", "pass",
         "test_a_directory_is_complete_or_absent"),
        ("writers of pictures get no descriptor", 'raise io.UnsupportedOperation("fileno")', "return self.raw.fileno()",
         "test_no_space_is_one_line_and_leaves_nothing"),
        ("a full disk is one line", "except OSError as error:\n        full",
         "except ZeroDivisionError as error:\n        full", "test_no_space_is_one_line_and_leaves_nothing"),
        ("files are made where they are tried", "with tempfile.TemporaryFile(dir=existing):", "if True:",
         "test_a_directory_that_takes_no_files_is_refused"),
        ("outputs are no pipes", "if exists and not path.is_file():", "if False:",
         "test_what_cannot_be_written_is_one_line"),
    ),
    *_of(
        "attribution/reading.py",
        "attribution/test_reading.py",
        ("pipes are not opened", "if not stat.S_ISREG(os.stat(path).st_mode):", "if False:", "test_a_pipe_is_refused"),
        ("nesting", "except RecursionError as error", "except ZeroDivisionError as error",
         "test_deep_nesting_is_refused"),
        ("memory", "except MemoryError as error", "except ZeroDivisionError as error",
         "test_memory_that_is_missing_is_one_line"),
        ("size of JSON", "if len(data) > _LARGEST_JSON:", "if False:", "test_sizes_are_limited"),
        ("size of archives", "for member in archive.zip.infolist()) > most:",
         "for member in archive.zip.infolist()) > 1e99:", "test_sizes_are_limited"),
        ("bombs of pixels", 'warnings.simplefilter("error", Image.DecompressionBombWarning)', "pass",
         "test_sizes_are_limited"),
        ("no pickle in arrays", 'array = np.load(file, allow_pickle=False)', 'array = np.load(file, allow_pickle=True)',
         "test_no_code_runs"),
        ("no pickle in archives", 'archive = np.load(file, allow_pickle=False)',
         'archive = np.load(file, allow_pickle=True)', "test_no_code_runs"),
        ("decompressors", "if not all(member.compress_type in _COMPRESSIONS", "if not all(True",
         "test_other_decompressors_do_not_run"),
        ("members of archives", "if not all(isinstance(array, np.ndarray)", "if not all(True",
         "test_other_formats_are_refused"),
        ("decoders of pictures", "Image.open(file, formats=_FORMATS)", "Image.open(file)",
         "test_other_formats_are_refused"),
        ("zip errors", "    zipfile.BadZipFile,\n", "", "test_other_formats_are_refused"),
        ("zlib errors", "    zlib.error,\n", "", "test_damaged_members_and_headers_are_refused"),
        ("tokenizer errors", "    tokenize.TokenError,  # from", "    # from",
         "test_damaged_members_and_headers_are_refused"),
        ("names do not lead up", 'or ".." in pathlib.PurePosixPath(name).parts', "",
         "test_names_that_lead_out_of_their_directory_are_refused"),
        ("names are relative", "or os.path.isabs(name)", "", "test_names_that_lead_out_of_their_directory_are_refused"),
        ("names have no backslash", 'or "\\\\" in name', "", "test_names_that_lead_out_of_their_directory_are_refused"),
        ("names have no null", 'or "\\0" in name', "", "test_names_that_lead_out_of_their_directory_are_refused"),
    ),
    *_of(
        "attribution/reading.py",
        "attribution/test_image_files.py",
        ("cut off TIFF", "if picture.format == \"TIFF\":\n        _check", "if False:\n        _check",
         "test_tiff_with_too_few_samples_is_refused"),
        ("samples of unknown range", "if not (low >= 0 and high <= 1):", "if False:",
         "test_samples_of_unknown_range_are_refused"),
    ),
    *_of(
        "attribution/remote_files.py",
        "attribution/test_remote_files.py",
        ("names in a bucket stay in the copy", "[inside(unfinished, path[len(root.rstrip(\"/\")) + 1 :], address) for",
         "[unfinished / path[len(root.rstrip(\"/\")) + 1 :] for", "test_a_name_that_leads_out_of_the_copy_is_refused"),
        ("sizes of copies", 'if path.stat().st_size != found[source]["size"]:', "if False:",
         "test_a_file_that_is_cut_off_leaves_no_copy"),
    ),
    *_of(
        "attribution_benchmarks/core/store.py",
        "attribution_benchmarks/core/test_store.py",
        ("checksums of records", "if checksum != self.checksum(name, line):", "if False:",
         "test_a_changed_record_is_named test_a_record_of_another_type_is_refused"),
        ("checksums cover the input", r'{self.name}\n{name}\n{line}', r'{self.name}\n{line}',
         "test_a_record_of_another_input_or_series_is_refused"),
        ("checksums cover the series", r'{self.name}\n{name}\n{line}', r'{name}\n{line}',
         "test_a_record_of_another_input_or_series_is_refused"),
        ("a batch is one transaction", 'database.execute("BEGIN IMMEDIATE")', "pass",
         "test_a_batch_is_written_whole_or_not_at_all"),
        ("the first record counts", "INSERT OR IGNORE INTO records", "INSERT OR REPLACE INTO records",
         "test_the_first_record_of_an_input_counts_whoever_writes_it"),
        ("schema", "if _schema(database) != _expected_schema():", "if False:",
         "test_a_database_with_another_schema_is_refused"),
        ("keys match their names", "if name != _name(header):", "if False:",
         "test_a_changed_name_is_refused_where_all_is_listed"),
        ("synchronous writes", "PRAGMA synchronous = NORMAL", "PRAGMA synchronous = OFF",
         "test_a_transaction_reaches_the_disk"),
        ("writers wait for each other", "_LOCK_TIMEOUT = 600", "_LOCK_TIMEOUT = 0",
         "test_a_writer_waits_for_the_transaction_of_another"),
        ("a new log is waited for", 'if "locked" not in str(error) or not left:', "if True:",
         "test_a_writer_waits_for_another_that_makes_the_database"),
        ("pipes as databases", "if self.path and is_special(", "if False and is_special(",
         "test_a_pipe_in_place_of_a_file_of_the_database_is_refused"),
        ("threads take turns", "self._lock = threading.RLock()", "self._lock = __import__('contextlib').nullcontext()",
         "test_threads_share_a_store"),
        ("records that were not taken", "if self.missing(lines):", "if False:",
         "test_a_record_that_was_not_taken_is_no_success"),
        ("index and table", "if any(name not in inputs for name, _, _ in rows):", "if False:",
         "test_flipped_bits_never_give_another_number[database]"),
        ("no NaN", "json.dumps(record, sort_keys=True, allow_nan=False)", "json.dumps(record, sort_keys=True)",
         "test_not_a_number_is_refused_and_leaves_no_trace"),
    ),
    *_of(
        "attribution_benchmarks/beam/workers.py",
        "attribution_benchmarks/beam/test_workers.py",
        ("workers end with their parent", "ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)", "pass",
         "test_busy_workers_end_with_a_killed_parent"),
        ("workers whose parent has ended", "if os.getppid() != parent:\n        os._exit(1)", "pass",
         "test_a_worker_whose_parent_has_ended_ends"),
        ("workers elsewhere watch their parent", "while os.getppid() == parent:", "while True:",
         "test_a_worker_whose_parent_has_ended_ends"),
        ("workers ignore Ctrl-C", "signal.signal(signal.SIGINT, signal.SIG_IGN)\n    if sys", "if sys",
         "test_workers_ignore_interruptions"),
        ("workers ignore Ctrl-C while they start", "before = signal.signal(signal.SIGINT, signal.SIG_IGN)",
         "before = signal.getsignal(signal.SIGINT)", "test_workers_ignore_interruptions"),
        ("workers are killed after a failure", "process.kill()", "pass",
         "test_they_are_killed_when_the_block_of_code_is_interrupted"),
        ("a killed worker is one line", "except concurrent.futures.process.BrokenProcessPool as",
         "except ZeroDivisionError as", "test_a_worker_that_the_system_ends_is_one_line"),
    ),
    *_of(
        "attribution/cli.py",
        "attribution/cli/test_run.py",
        ("interruptions that Python ignores", 'return _report("interrupted", 130) if interrupted else 0', "return 0",
         "test_an_interruption_that_python_ignores_still_ends_with_130"),
        ("interruptions are sent again", "timers[-1].start()", "pass",
         "test_an_interruption_that_python_ignores_stops_the_work"),
        ("errors after an interruption", "if not interrupted:", "if True:",
         "test_an_interruption_that_python_ignores_still_ends_with_130"),
        ("a second interruption", "signal.signal(signal.SIGINT, signal.SIG_IGN)", "pass",
         "test_a_second_interruption_while_the_program_ends_changes_nothing"),
        ("closed standard output", "if sys.stdout is None:", "if False:",
         "test_closed_standard_output_is_refused_before_any_work"),
        ("full standard output", "code = _flushed(code)", "pass",
         "test_standard_output_that_cannot_be_written_is_one_line"),
        ("readers that end", "os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())\n        code = 141",
         "raise", "test_a_reader_that_has_read_enough_ends_a_command_quietly"),
        ("SystemExit of user code", "if isinstance(error, SystemExit) and", "if False and",
         "test_code_that_ends_the_program_is_one_line"),
        ("deleted working directory", "    _check_working_directory()\n    try:", "    try:",
         "test_a_deleted_working_directory_is_one_line"),
        ("numbers are finite", "    _check_numbers(flag_values)\n    cache", "    cache",
         "test_numbers_that_are_none_are_refused"),
        ("a full disk of TensorFlow", "if (message := _tensorflow_file_error(error)) is not None:",
         "if (message := None):",
         "test_a_full_disk_that_tensorflow_meets_is_one_line_and_its_other_errors_are_not_hidden"),
        ("errors of the file system are one line", "if isinstance(error, OSError) and error.errno in",
         "if False and error.errno in", "test_errors_of_the_file_system_are_one_line"),
        ("flags in errors are escaped", "printable(' '.join(str(error).split()))", "str(error)",
         "test_control_characters_of_arguments_are_escaped"),
    ),
    *_of(
        "attribution/errors.py",
        "attribution/cli/test_run.py",
        ("control characters", "if text.isprintable():", "if True:",
         "test_control_characters_of_arguments_are_escaped"),
    ),
    *_of(
        "attribution_benchmarks/core/tables.py",
        "attribution_benchmarks/core/test_tables.py",
        ("formulas in CSV", 'if not cell.startswith(("=", "+", "-", "@")):', "if True:", "test_names_stay_text"),
        ("columns of Markdown", '.replace("|", r"\\|")', "", "test_markdown_has_the_same_cells_in_every_line"),
        ("tags in Markdown", 'text.replace("<", "&lt;"))', "text)", "test_names_stay_text"),
        ("fences in Markdown", "max(3, longest + 1)", "3", "test_text_in_markdown_stays_in_its_block"),
        ("links in Markdown", r're.sub(r"\]\((?!#)", r"]\(", text.replace("<", "&lt;"))', 'text.replace("<", "&lt;")',
         "test_links_and_pictures_of_names_are_text_in_markdown"),
    ),
    *_of(
        "attribution/plugins.py",
        "attribution/test_plugins.py",
        ("the working directory is restored", "os.fchdir(before)", "pass",
         "test_custom_code_moves_no_output_and_ends_no_command"),
        ("os._exit in user code", "os._exit = end_elsewhere\n", "\n",
         "test_custom_code_moves_no_output_and_ends_no_command"),
        ("pipes as modules", "if is_special(place)", "if False and is_special(place)", "test_a_pipe_is_no_module"),
    ),
    *_of(
        "attribution/explain/__main__.py",
        "attribution/explain/test_command.py",
        ("outputs are checked first", "    check_file(flag, path)\n", "",
         "test_outputs_are_checked_before_anything_is_loaded"),
    ),
    *_of(
        "attribution/model/op_allowlist.py",
        "attribution/model/test_op_allowlist.py",
        ("operations", "if found:\n", "if False:\n",
         "test_what_reads_writes_or_calls_python_is_named_and_refused[WriteFile]"),
        ("stateless operations that are not pure", "or NOT_PURE.fullmatch(node.op)", "",
         "test_what_reads_writes_or_calls_python_is_named_and_refused[ReadFile]"),
        ("unknown operations", "return None if node.op in functions else", "return None if True else",
         "test_an_unknown_operation_is_refused"),
        ("files of descriptors", "return not value or value.startswith", "return True or value.startswith",
         "test_what_reads_writes_or_calls_python_is_named_and_refused[DecodeProtoV2]"),
        ("files to print to", 'return not value.startswith(b"file:")', "return True",
         "test_what_reads_writes_or_calls_python_is_named_and_refused[PrintV2]"),
        ("calls out of XLA", 'return text is not None and not', "return text is not None or not",
         "test_what_reads_writes_or_calls_python_is_named_and_refused[XlaCallModule]"),
        ("modules that cannot be read", "return text is not None and not", "return text is None or not",
         "test_a_module_that_cannot_be_read_is_refused"),
        ("texts from the caller", 'if attribute.name in node.attr and given.WhichOneof("value") !=',
         "if None is not None !=", "test_a_text_that_a_function_takes_from_its_caller_is_refused"),
        ("unknown texts", "return None if attribute.name in TEXTS else", "return None if True else",
         "test_an_unknown_text_is_refused"),
    ),
    *_of(
        "attribution/model/loader.py",
        "attribution/model/test_loader.py",
        ("functions of one name", "if len(library) < len(used.graph_def.library.function):", "if False:",
         "test_two_functions_of_one_name_are_refused"),
        ("pipes as variables", "if not path.is_dir():", "if False:",
         "test_a_pipe_in_place_of_the_variables_is_refused"),
    ),
    *_of(
        "attribution/model/_used_parts.py",
        "attribution/model/test_op_allowlist.py",
        ("registered gradients", 'if "_gradient_op_type" in node.attr:', "if False:",
         "test_custom_gradients_are_followed_without_their_entry_among_the_functions"),
        ("functions that functions call", "waiting += self.add_called_by(self._bodies[part])", "pass",
         "test_a_text_that_a_function_takes_from_its_caller_is_refused"),
        ("initializers", "if node.HasField(\"resource\"):", "if False:", "test_an_initialiser_does_not_run"),
    ),
    *_of(
        "attribution/model/_used_parts.py",
        "attribution/model/test_loader.py",
        ("names of assets are relative", "not name.is_absolute()\n        and ", "", "test_assets_are_the_models_own"),
        ("names of assets do not lead up", 'and ".." not in name.parts', "", "test_assets_are_the_models_own"),
        ("links of assets stay in the model", "and path.resolve().is_relative_to(directory.resolve())", "",
         "test_assets_are_the_models_own"),
        ("every path of an asset is the model's own", "for file in files)\n", "for file in files[:1])\n",
         "test_a_second_path_for_the_same_asset_must_be_the_models_own"),
    ),
    *_of(
        "attribution_benchmarks/serving/_protocols.py",
        "attribution_benchmarks/serving/test_hostile_grpc.py",
        ("sizes that a reply names", "if min(shape, default=0) < 0 or", "if False and",
         "test_shapes_that_the_description_does_not_limit"),
        ("a description is one of signatures", 'if not reply.metadata["signature_def"].Unpack(found):',
         'if reply.metadata["signature_def"].Unpack(found) is None:', "test_descriptions_that_cannot_be_used"),
        ("a description can be decoded", "except message.DecodeError as error:", "except ZeroDivisionError as error:",
         "test_descriptions_that_cannot_be_used"),
    ),
    *_of(
        "attribution_benchmarks/serving/_protocols.py",
        "attribution_benchmarks/serving/test_model.py",
        ("sizes that a description names", "> _LARGEST_ROW:", "> 1e99:",
         "test_targets_that_are_no_classes_and_shapes_without_end"),
    ),
    *_of(
        "attribution_benchmarks/serving/_model.py",
        "attribution_benchmarks/serving/test_model.py",
        ("targets are classes", 'if not np.isin(first["target"]', 'if False and not np.isin(first["target"]',
         "test_targets_that_are_no_classes_and_shapes_without_end"),
        ("types of a description", "        _check_types(sheet)\n", "",
         "test_descriptions_of_explanations_that_cannot_be_used"),
    ),
    *_of(
        "attribution_benchmarks/core/evaluator.py",
        "attribution_benchmarks/core/test_evaluator.py",
        ("a key has the metric's code", "Code(measure.name, measure.function, measure.described)",
         "Code(measure.name, None, measure.described)", "test_what_changes_a_number_finds_no_old_one[metric]"),
        ("a key has what belongs to a metric", "Code(measure.name, measure.function, measure.described)",
         "Code(measure.name, measure.function)", "test_what_changes_a_number_finds_no_old_one[digits]"),
        ("a key has the code that prepares inputs", "[*code, *map(definition_of, choosing)]",
         "[*map(definition_of, choosing)]", "test_other_code_of_a_benchmark_finds_no_old_number[code]"),
        ("a key has the code that chooses inputs", "[*code, *map(definition_of, choosing)]", "[*code]",
         "test_other_code_of_a_benchmark_finds_no_old_number[judge]"),
        ("a key has the versions", '"versions": manifest.versions(), ', "",
         "test_other_code_of_a_benchmark_finds_no_old_number[library]"),
        ("settings of arithmetic do not change", "if manifest.settings() != self._settings:", "if False:",
         "test_a_setting_of_arithmetic_is_part_of_the_key_and_no_method_changes_it"),
    ),
    *_of(
        "attribution_benchmarks/core/metric.py",
        "attribution_benchmarks/core/test_evaluator.py",
        ("a key has the treatment of maps of zeros", "self.digits, self.degenerate_maps, self.needs",
         "self.digits, self.needs", "test_what_changes_a_number_finds_no_old_one[zeros]"),
        ("a key has the digits", "self.width, self.digits,", "self.width,",
         "test_what_changes_a_number_finds_no_old_one[digits]"),
    ),
    *_of(
        "attribution_benchmarks/core/explainer.py",
        "attribution_benchmarks/core/test_evaluator.py",
        ("a key has the method's code", "Code(name, method.function, parameters, method.library_version())",
         "Code(name, None, parameters)", "test_what_changes_a_number_finds_no_old_one[method]"),
        ("a key has the method's parameters", "Code(name, method.function, parameters, method.library_version())",
         "Code(name, method.function)", "test_what_changes_a_number_finds_no_old_one[parameter]"),
        ("a key has the seed", '= {"method": source.name, "seed": self.seed}', '= {"method": source.name}',
         "test_what_changes_a_number_finds_no_old_one[seed]"),
    ),
    *_of(
        "attribution_benchmarks/core/manifest.py",
        "attribution_benchmarks/core/test_manifest.py",
        ("settings of the environment", "if _ARITHMETIC.fullmatch(name) and", "if False and",
         "test_variables_that_change_arithmetic_are_named[ONEDNN_DEFAULT_FPMATH_MODE]"),
    ),
    *_of(
        "attribution_benchmarks/core/custom_code.py",
        "attribution_benchmarks/core/test_custom_code.py",
        ("files that a method reads", 'if event == "open":', "if False:",
         "test_a_changed_method_never_finds_an_old_score[file]"),
        ("processes that a method starts", "elif event in _ELSEWHERE:", "elif False:",
         "test_a_changed_method_never_finds_an_old_score[process]"),
        ("methods that change while they run", 'return "" if same else', 'return "" if True else',
         "test_a_changed_method_never_finds_an_old_score[counter]"),
    ),
    *_of(
        "attribution_benchmarks/core/fingerprint.py",
        "attribution_benchmarks/core/test_custom_code.py",
        ("what a method is bound to", "[method.__func__, method.__self__]", "[method.__func__]",
         "test_functions_of_one_name_are_scored_each_by_python"),
        ("closures", "yield from function.__closure__ or ()", "yield from ()",
         "test_functions_of_one_name_are_scored_each_by_python"),
        ("custom modules", 'in sorted(vars(module).items()) if not name.startswith("__")', "in ()",
         "test_a_changed_method_never_finds_an_old_score[by_attribute_by_value]"),
        ("attributes that a pickle leaves out", 'yield getattr(value, "__dict__", {})', "yield {}",
         "test_a_changed_method_never_finds_an_old_score[hidden_state_by_value]"),
    ),
    *_of(
        "bim/scores.py",
        "bim/test_scores.py",
        ("BIM's percentile", "_PERCENTILE = 99.0", "_PERCENTILE = 98.0",
         "test_the_99th_percentile_of_a_map_becomes_one_and_negative_values_zero"),
        ("BIM's negative values", "np.maximum(np.asarray(maps, np.float64), 0)", "np.abs(np.asarray(maps, np.float64))",
         "test_the_99th_percentile_of_a_map_becomes_one_and_negative_values_zero"),
        ("BIM's mask", "np.asarray(resized) > 0", "np.asarray(resized) == 0",
         "test_the_attribution_is_the_mean_inside_the_mask_and_the_mask_is_where_the_object_is"),
        ("the mean inside BIM's mask", "masks = np.asarray(masks, np.float64)",
         "masks = 1 - np.asarray(masks, np.float64)",
         "test_the_attribution_is_the_mean_inside_the_mask_and_the_mask_is_where_the_object_is"),
    ),
    *_of(
        "scripts/download_datasets.sh",
        "scripts/test_downloads.py",
        ("links in archives of data", '! -type f ! -type d -print -quit)" ]]', '-name nothing)" ]]',
         "test_nothing_of_a_wrong_archive_is_taken"),
        ("hashes of archives", '&& "$found" != "$expected"', "&& 1 = 0", "test_nothing_of_a_wrong_archive_is_taken"),
    ),
    *_of(
        "scripts/download_models.sh",
        "scripts/test_downloads.py",
        ("links in archives of models", '! -type f ! -type d -print -quit)" ]]', '-name nothing)" ]]',
         "test_a_model_with_a_link_is_refused"),
    ),
]  # fmt: skip


class Copy:
    """A copy of the code in a directory, with at most one mutation at a time."""

    def __init__(self, directory: pathlib.Path):
        self.directory = directory
        for name in COPIED:
            shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in LINKED:
            (directory / name).symlink_to(ROOT / name)
        # A changed file can have the size and the second of another: compare the content with the compiled file's.
        compileall.compile_dir(directory, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)

    def mutate(self, one: Mutation) -> None:
        text = (ROOT / one.file).read_text(encoding="utf-8")
        (self.directory / one.file).write_text(text.replace(one.before, one.after), encoding="utf-8")

    def start(self, tests: Sequence[str], seconds: int) -> int:
        """Run tests in a forked child, which is returned."""
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            self._run_here(tests, seconds)
        return child

    def how(self, child: int, status: int) -> str:
        """Return how the tests of a child ended, as in ``HOW``."""
        code = os.waitstatus_to_exitcode(status)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what a test that did not end has started
        if code not in HOW:
            raise RuntimeError(f"pytest ended with {code}:\n{self.said()}")
        return HOW[code]

    def said(self) -> str:
        return (self.directory / "said").read_text(errors="replace")[-5000:]

    def _run_here(self, tests: Sequence[str], seconds: int) -> None:
        code = 99
        try:
            os.setsid()
            os.chdir(self.directory)
            os.environ["PYTHONPATH"] = sys.path[0] = str(self.directory)
            said = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(said, 1)
            os.dup2(said, 2)
            signal.alarm(seconds)
            import pytest

            # Explained assertions and tracebacks with their source take most of a child's time.
            options = ["-x", "--tb=native", "--assert=plain", "-p", "no:cacheprovider"]
            options += ["-o", "addopts=--import-mode=importlib"]
            code = PASSED + int(pytest.main([*options, f"--basetemp={self.directory}/files", *tests]))
            sys.stdout.flush()
        finally:
            os._exit(code)


def import_libraries() -> None:
    """Import what all children use, and nothing of a copy."""
    sys.dont_write_bytecode = True
    os.environ.update(PYTHONDONTWRITEBYTECODE="1", TF_CPP_MIN_LOG_LEVEL="3", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    import cv2, filelock, keras, matplotlib.figure, PIL.Image, pytest, tensorflow  # noqa: E401, F401, I001

    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["--version", "--noconftest"])  # imports its plugins
    gc.freeze()  # pytest collects garbage, which would look at all of TensorFlow's objects in each child


def main() -> None:
    chosen = [one for one in MUTATIONS if not sys.argv[1:] or any(word in one.name for word in sys.argv[1:])]
    if not chosen:
        sys.exit(f"no mutation has one of {', '.join(sys.argv[1:])} in its name")
    import_libraries()
    with tempfile.TemporaryDirectory() as temporary:
        free = [Copy(pathlib.Path(temporary) / str(number)) for number in range(AT_ONCE)]
        tests = list(dict.fromkeys(test for one in chosen for test in one.tests))
        running, waiting, missed = {free[0].start(tests, 400): (free[0], None, 0)}, chosen[::-1], []
        try:
            if how := free[0].how(*os.wait()):
                sys.exit(f"without a mutation: {how}\n{free[0].said()}")
            running.clear()
            while waiting or running:
                if waiting and free:
                    copy, one = free.pop(), waiting.pop()
                    copy.mutate(one)
                    running[copy.start(one.tests, SECONDS)] = copy, one, time.monotonic()
                    continue
                child, status = os.wait()
                copy, one, start = running.pop(child)
                how = copy.how(child, status)
                shutil.copyfile(ROOT / one.file, copy.directory / one.file)
                free.append(copy)
                missed += [] if how else [one.name]
                print(f"{how or 'NOT NOTICED'}  {one.name}  ({time.monotonic() - start:.1f} s)", flush=True)
        except KeyboardInterrupt:
            sys.exit("interrupted")
        finally:
            for child in running:  # each leads a group
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)
                    os.waitpid(child, 0)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} mutations noticed")
    if missed:
        sys.exit(f"not noticed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
