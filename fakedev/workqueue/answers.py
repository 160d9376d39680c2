"""What a client is told of its request, made from what is known of it."""

from __future__ import annotations

from fakedev.workqueue.job import Job
from fakedev.workqueue.outcome import Answer, Outcome, Report, outcome_of


def answer_to(job: Job, report: Report, now: float) -> Answer:
    """The answer for a run of which its worker has told."""
    outcome = outcome_of(report)
    worker = job.worker
    exit_code, error = 0, ""
    if outcome is not Outcome.SUCCESS:
        exit_code, error = report.exit_code or 1, report.error or _error(outcome, report)
    return Answer(
        outcome,
        exit_code,
        error,
        report.timeout_seconds,
        now - job.taken_seconds if report.run_seconds is None else report.run_seconds,
        job.wait_seconds,
        report.pod or (worker.pod if worker else ""),
        report.node or (worker.node if worker else ""),
        report.device or (worker.device if worker else ""),
    )


def answer_without_report(job: Job, outcome: Outcome, error: str, now: float) -> Answer:
    """The answer for a request that ends here, whether it waits or runs."""
    worker = job.worker
    if worker is None:
        return Answer(outcome, error=error, wait_seconds=now - job.put_seconds)
    return Answer(
        outcome,
        error=error,
        timeout_seconds=job.limit_seconds if outcome is Outcome.TIMEOUT else 0.0,
        run_seconds=now - job.taken_seconds,
        wait_seconds=job.wait_seconds,
        pod=worker.pod,
        node=worker.node,
        device=worker.device,
    )


def _error(outcome: Outcome, report: Report) -> str:
    match outcome:
        case Outcome.FAILURE:
            return f"exit code {report.exit_code}"
        case Outcome.TIMEOUT:
            return f"the time limit of {report.timeout_seconds:g} s is over"
    return ""
