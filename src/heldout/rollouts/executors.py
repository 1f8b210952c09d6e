"""Where jobs run: inline, in threads (for network-bound models), or each in its own process group."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from multiprocessing.connection import Connection
from queue import SimpleQueue
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
    """One thread per job in flight; for models behind a network.

    The threads are daemons, which those of the standard library's pool are not: a run that is interrupted ends at
    once, and not when the last slow request does.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, fn: Callable[..., T], *args: Any) -> Future[T]:
        future: Future[T] = Future()
        self._queue.put(lambda: _fulfil(future, fn, args))
        if len(self._threads) < self.workers:
            thread = threading.Thread(target=self._work, name="rollout", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def close(self) -> None:
        while not self._queue.empty():
            self._queue.get()
        for _ in self._threads:
            self._queue.put(None)
        self._threads.clear()

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            job()


class ProcessExecutor:
    """Each job in a fresh process that leads its own process group, which is killed at the time limit.

    Jobs and results are pickled. What a job started and left running dies with it.
    """

    def __init__(self, workers: int, *, timeout_s: float) -> None:
        self.workers = workers
        self._timeout_s = timeout_s
        self._threads = ThreadExecutor(workers)
        self._running: set[int] = set()
        self._closed = False
        self._lock = threading.Lock()
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["heldout.rollouts.executors"])

    def submit(self, fn: Callable[..., T], *args: Any) -> Future[T]:
        return self._threads.submit(self._in_process, fn, args)

    def close(self) -> None:
        self._threads.close()
        with self._lock:
            self._closed = True
            for pid in self._running:
                _kill_group(pid)

    def _in_process(self, fn: Callable[..., T], args: tuple[Any, ...]) -> T:
        receiver, sender = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_child, args=(sender, fn, args), daemon=True)
        process.start()
        pid = process.pid or 0
        with self._lock:
            self._running.add(pid)
        sender.close()
        try:
            if self._closed:
                raise SandboxError("the executor was closed")
            answer = self._receive(receiver)
        finally:
            with self._lock:
                _kill_group(pid)
                self._running.discard(pid)
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
    value, error = _attempt(fn, args)
    if error is not None and not isinstance(error, HeldoutError):
        told = "".join(traceback.format_exception(error, limit=5))
        error = HarnessError(f"the job raised:\n{told}")
    sender.send((True, value) if error is None else (False, error))


def _fulfil(future: Future[T], fn: Callable[..., T], args: tuple[Any, ...]) -> None:
    value, error = _attempt(fn, args)
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


def _attempt(fn: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, BaseException | None]:
    """What the job returned, or what it raised: whoever waits for it must learn that, whatever it is."""
    try:
        return fn(*args), None
    except BaseException as error:  # noqa: BLE001 - the end of a worker, which has nobody to raise to
        return None, error


def _kill_group(pid: int) -> None:
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
