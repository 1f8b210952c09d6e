"""Table operations for the programs of the world `tables`; the same in this process and in a sandbox.

A sandbox shows this folder and openpyxl, and nothing else of Heldout: no module here imports anything beyond them.
"""

from heldout.worlds.tables.toolbox.folder import DiskFolder, Folder, MemoryFolder
from heldout.worlds.tables.toolbox.table import Formula, Table

__all__ = ["DiskFolder", "Folder", "Formula", "MemoryFolder", "Table"]
