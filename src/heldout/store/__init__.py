"""A run on disk: the journal that is the truth, candidates named by content, and views rebuilt from both."""

from heldout.store.base import EventLog
from heldout.store.folders import (
    export_candidate,
    fault_of_files,
    load_candidate,
    read_folder,
    save_blob,
    save_candidate,
    write_atomic,
)
from heldout.store.index import Index
from heldout.store.journal import Journal, payload_json, read_events
from heldout.store.lineage import Lineage, Node, NodeStatus
from heldout.store.lock import LockHolder, RunLock
from heldout.store.run_folder import RunFolder, list_runs
from heldout.store.toml import toml_text
from heldout.store.traces import FolderTraces, MemoryTraces, Traces
from heldout.store.weights import WeightsOrigin, WeightsStore, weights_digest

__all__ = [
    "EventLog",
    "FolderTraces",
    "Index",
    "Journal",
    "Lineage",
    "LockHolder",
    "MemoryTraces",
    "Node",
    "NodeStatus",
    "RunFolder",
    "RunLock",
    "Traces",
    "WeightsOrigin",
    "WeightsStore",
    "export_candidate",
    "fault_of_files",
    "list_runs",
    "load_candidate",
    "payload_json",
    "read_events",
    "read_folder",
    "save_blob",
    "save_candidate",
    "toml_text",
    "weights_digest",
    "write_atomic",
]
