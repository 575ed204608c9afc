"""`python -m tests.sanitize`: the tests of the C modules with AddressSanitizer and UndefinedBehaviorSanitizer.

A copy of the tree, build/sanitized, gets modules that are compiled with both, so that each process that its tests start
loads them. Any report fails the run, also that of a process whose end no test looks at: reports are files.

Python itself is not instrumented. It allocates with malloc, so that a module that writes beyond an object, or uses one
that is gone, is seen; what Python keeps until the end of a process is not looked at (leaks are shown by counts of
references in the unit tests).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.mutation.copies import copied
from tests.support.project.native import compile_modules
from tests.support.project.parts import ROOT

FOLDER = ROOT / "build" / "sanitized"
FLAGS = ("-g", "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fsanitize-undefined-trap-on-error")
"""What is undefined ends in an illegal instruction, of which AddressSanitizer writes the report: gcc's library for
undefined behaviour writes its own to stderr alone when both are there."""
TESTS = (
    "tests/unit/bridges/kafka/consume/test_poll.py",
    "tests/unit/bridges/kafka/consume/test_reader.py",
    "tests/unit/bridges/kafka/produce/test_produce_client.py",
    "tests/unit/bridges/kafka/produce/test_record_columns.py",
    "tests/unit/bridges/kafka/transactions/test_outbox.py",
    "tests/unit/bridges/kafka/records/test_digest.py",
    "tests/unit/bridges/kafka/records/test_mapping.py",
    "tests/unit/bridges/spark/columns/test_decode_c.py",
    "tests/unit/gateway/amqp/engine/test_attach_sizes.py",
    "tests/unit/gateway/amqp/proton/test_batch.py",
    "tests/unit/gateway/amqp/engine/test_engine.py",
    "tests/unit/gateway/amqp/proton/test_no_memory.py",
    "tests/unit/gateway/amqp/message/test_bounds.py",
    "tests/unit/gateway/amqp/message/test_sections.py",
    "tests/unit/gateway/amqp/message/test_sections_c.py",
    "tests/unit/gateway/held/test_account.py",
    "tests/unit/gateway/nodes/direct/test_direct_node.py",
    "tests/unit/gateway/response/test_annotate.py",
    "tests/unit/gateway/response/test_rewrite.py",
    "tests/property/bridges/kafka/consume/test_checked_digests.py",
    "tests/property/bridges/kafka/consume/test_poll.py",
    "tests/property/bridges/kafka/consume/test_shared_reading.py",
    "tests/property/bridges/kafka/produce/test_produce_client.py",
    "tests/property/bridges/kafka/records/test_fast_encode.py",
    "tests/property/bridges/kafka/records/test_header_texts.py",
    "tests/property/bridges/kafka/records/test_lossless.py",
    "tests/property/bridges/kafka/records/test_mapping.py",
    "tests/property/bridges/kafka/records/test_record_forms.py",
    "tests/property/bridges/kafka/records/test_records_of_messages.py",
    "tests/property/bridges/spark/archive/write/test_records.py",
    "tests/property/bridges/spark/columns/test_rows_together.py",
    "tests/property/gateway/amqp/codec/test_codec.py",
    "tests/property/gateway/amqp/engine/test_engine_fuzz.py",
    "tests/property/gateway/amqp/proton/test_unsettled.py",
    "tests/property/gateway/amqp/message/test_section_index.py",
    "tests/property/gateway/amqp/message/test_sections.py",
    "tests/property/gateway/filters/test_text_tests.py",
    "tests/property/gateway/journal/test_message_rows.py",
    "tests/property/gateway/response/test_rewrite_c.py",
    "tests/property/project/test_fuzz_corpus.py",
    "tests/protocol",
)
LEFT_OUT = ("--deselect", "tests/unit/gateway/held/test_account.py::test_free_memory_in_the_heap_is_known")
"""What asks for the heap of glibc, which nothing is in here."""


def runtime() -> str:
    """Return the place of gcc's AddressSanitizer, which has to be in a process before anything else."""
    found = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True).stdout
    return str(Path(found.strip()).resolve())


def prepare(folder: Path) -> None:
    """Copy the tree; only the modules compiled here are in it."""
    shutil.rmtree(folder, ignore_errors=True)
    copied(folder)
    for package in ("gateway", "bridges"):
        for module in (folder / package).rglob("*.so"):
            module.unlink()
    compile_modules(folder, FLAGS)
    (folder / "reports").mkdir()


def environment(folder: Path) -> dict[str, str]:
    """Return what a sanitized process needs; every process that it starts inherits it."""
    reports = folder / "reports"
    return os.environ | {
        "PYTHONPATH": str(folder),
        "PYTHONMALLOC": "malloc",
        "LD_PRELOAD": runtime(),
        # Freed memory is kept for a while, to notice its use; a test of resident memory allows for little of it.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:handle_sigill=1:quarantine_size_mb=8:"
        f"log_path={reports}/report",
    }


def main(arguments: list[str]) -> int:
    """Build, run, print the reports; 0 when all tests passed and there is none."""
    prepare(FOLDER)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *LEFT_OUT, *(arguments or TESTS)]
    code = subprocess.run(command, cwd=FOLDER, env=environment(FOLDER)).returncode
    reports = sorted((FOLDER / "reports").iterdir())
    for report in reports:
        print(report.read_text(), file=sys.stderr)
    print(f"{len(reports)} reports of the sanitizers in {FOLDER.relative_to(ROOT)}/reports")
    return 1 if code or reports else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
