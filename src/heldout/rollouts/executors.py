"""Where jobs run: inline, in threads (for network-bound models), or each in its own process group."""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, Protocol, TypeVar

from heldout.config import ExecutorConfig
from heldout.errors import HarnessError, HeldoutError, SandboxError

__all__ = ["Executor", "InlineExecutor", "JobTimeout", "ProcessExecutor", "ThreadExecutor", "make_executor"]

T = TypeVar("T")


class JobTimeout(HarnessError):
    """A job passed its time limit and its process group was killed."""


class Executor(Protocol):
    """Runs jobs. `workers` jobs may be in flight at once; a future's exception is the job's own."""

    workers: int

    def submit(self, fn: Callable[..., T], *args: Any) -> Future[T]:
        """Start a job; never raises for what the job does."""

    def close(self) -> None:
        """Wait for nothing: drop what is queued and stop the workers. Safe to call twice."""


class InlineExecutor:
    """Runs each job at once, in the caller."""

    workers = 1

    def submit(self, fn: Callable[..., T], *args: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args))
        except HeldoutError as error:
            future.set_exception(error)
        return future

    def close(self) -> None:
        """Nothing to stop."""


class ThreadExecutor:
    """One thread per job in flight; for models behind a network."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="rollout")

    def submit(self, fn: Callable[..., T], *args: Any) -> Future[T]:
        return self._pool.submit(fn, *args)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class ProcessExecutor:
    """Each job in a fresh process that leads its own process group, which is killed at the time limit.

    Jobs and results are pickled. What a job started and left running dies with it.
    """

    def __init__(self, workers: int, *, timeout_s: float) -> None:
        self.workers = workers
        self._timeout_s = timeout_s
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="job")
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["heldout.rollouts.executors"])

    def submit(self, fn: Callable[..., T], *args: Any) -> Future[T]:
        return self._threads.submit(self._in_process, fn, args)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _in_process(self, fn: Callable[..., T], args: tuple[Any, ...]) -> T:
        receiver, sender = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_child, args=(sender, fn, args), daemon=True)
        process.start()
        sender.close()
        try:
            answer = self._receive(receiver)
        finally:
            _kill_group(process.pid)
            process.join()
            process.close()
            receiver.close()
        ok, value = answer
        if ok:
            result: T = value
            return result
        raise value

    def _receive(self, receiver: Connection) -> tuple[bool, Any]:
        if not receiver.poll(self._timeout_s):
            raise JobTimeout(f"the job was killed after {self._timeout_s:g} s (executor.timeout_s)")
        try:
            answer: tuple[bool, Any] = receiver.recv()
        except EOFError as cause:
            raise SandboxError("the job's process died without an answer (killed, or out of memory)") from cause
        return answer


def _child(sender: Connection, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
    os.setsid()
    try:
        answer = (True, fn(*args))
    except HeldoutError as error:
        answer = (False, error)
    except BaseException:  # noqa: BLE001 - the boundary of a worker process: the parent must learn why it died
        answer = (False, HarnessError(f"the job raised:\n{traceback.format_exc(limit=5)}"))
    sender.send(answer)


def _kill_group(pid: int | None) -> None:
    if pid is None:
        return
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        except PermissionError:
            continue


def make_executor(config: ExecutorConfig) -> Executor:
    """The executor that the config names."""
    if config.kind == "inline":
        return InlineExecutor()
    if config.kind == "threads":
        return ThreadExecutor(config.workers)
    return ProcessExecutor(config.workers, timeout_s=config.timeout_s)
