"""Runs cases in a their own process, which is started again where a case ends it or hangs."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, Any

from tests.fuzz.fuzzer import Fuzzer

WORKER = "tests.fuzz.worker"
PATIENCE = 60.0
"""Seconds that a process may take to start."""
CASES_OF_A_PROCESS = 400
"""llvmlite's pass manager leaks with each module."""
MEGABYTES_OF_A_PROCESS = 2000
ENVIRONMENT = {
    "TESSELLA_CACHE": "off",
    "TESSELLA_WORKERS": "0",
    "TESSELLA_VERIFY": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}


@dataclass(frozen=True)
class Finding:
    """A case that fails."""

    seed: int
    key: str
    """Findings of the same key mostly have the same cause."""
    text: str


@dataclass
class Report:
    """The numbers of cases by outcome."""

    outcomes: Counter[str] = field(default_factory=Counter[str])
    findings: list[Finding] = field(default_factory=list[Finding])
    seconds: float = 0.0

    @property
    def cases(self) -> int:
        """The number of cases that have run."""
        return self.outcomes.total()

    def __str__(self) -> str:
        outcomes = ", ".join(f"{n} {name}" for name, n in self.outcomes.most_common())
        kinds = len({finding.key for finding in self.findings})
        rate = self.cases / max(self.seconds, 1e-9) * 3600
        return (
            f"{self.cases} cases in {self.seconds:.0f} s ({rate:.0f} an hour): {outcomes}; "
            f"{len(self.findings)} findings of {kinds} kinds"
        )


class Worker:
    """A process that runs cases."""

    def __init__(self, fuzzer: Fuzzer) -> None:
        self.fuzzer = fuzzer
        self.cases = 0
        self.log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", WORKER, fuzzer.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=os.environ | ENVIRONMENT,
            text=True,
        )

    def ask(self, question: str, seconds: float) -> dict[str, Any] | str:
        """The answer; or what has become of the process, which is at its end then."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.cases += 1
        try:
            self.process.stdin.write(question + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return self._ended()
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            self.stop()
            return f"hangs: no answer for {seconds:.0f} s"
        line = self.process.stdout.readline()
        return json.loads(line) if line else self._ended()

    def _ended(self) -> str:
        code = self.process.wait()
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self.log.seek(0)
        text = self.log.read().decode(errors="replace")[-2000:]
        return f"crashes: {name}\n{text}"

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.log):
            if stream is not None:
                stream.close()


class Runner:
    """Runs the cases of a fuzzer, and writes those that fail to a folder."""

    def __init__(self, fuzzer: Fuzzer, folder: Path | None) -> None:
        self.fuzzer = fuzzer
        self.folder = folder
        self.report = Report()
        self._worker: Worker | None = None

    def run(self, seed: int, seconds: float | None, cases: int | None) -> Iterator[Finding]:
        """Run cases from this seed on until the time or the number of cases is used up, and return
        the findings."""
        began = time.monotonic()
        try:
            for number in range(cases) if cases is not None else count():
                if seconds is not None and time.monotonic() - began > seconds:
                    break
                finding = self._check(seed + number)
                self.report.seconds = time.monotonic() - began
                if finding is not None:
                    yield finding
        finally:
            self._stop()

    def _check(self, seed: int) -> Finding | None:
        answer = self._ask(f"check {seed}")
        if isinstance(answer, str):
            finding = Finding(seed, answer.split("\n")[0], answer)
        elif answer["outcome"] == "failed":
            finding = Finding(seed, answer["key"], answer["error"])
        else:
            self.report.outcomes[answer["outcome"]] += 1
            if answer["megabytes"] > MEGABYTES_OF_A_PROCESS:
                self._stop()
            return None
        self.report.outcomes["failed"] += 1
        self.report.findings.append(finding)
        if self.folder is not None:
            self._save(finding, reduced=not isinstance(answer, str))
        return finding

    def _save(self, finding: Finding, *, reduced: bool) -> None:
        assert self.folder is not None
        folder = self.folder / f"{self.fuzzer.name}-{finding.seed}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "finding.txt").write_text(f"{command(self.fuzzer, finding)}\n\n{finding.text}\n")
        if isinstance(self._ask(f"{'reduce' if reduced else 'save'} {finding.seed} {folder}"), str):
            self._ask(f"save {finding.seed} {folder}")

    def _ask(self, question: str) -> dict[str, Any] | str:
        if self._worker is not None and self._worker.cases >= CASES_OF_A_PROCESS:
            self._stop()
        if self._worker is None:
            self._worker = Worker(self.fuzzer)
        patience = 0.0 if self._worker.cases else PATIENCE
        answer = self._worker.ask(question, self.fuzzer.seconds + patience)
        if isinstance(answer, str):
            self._stop()
        return answer

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.stop()
            self._worker = None


def command(fuzzer: Fuzzer, finding: Finding) -> str:
    """The command that runs the case again."""
    return f"python -m tests.fuzz {fuzzer.name} --seed {finding.seed} --cases 1"
