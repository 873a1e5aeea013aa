"""Extracted attention as objects, and the files that hold it: ``open_records``, ``Record``, ``RecordWriter``."""

from .files import Records, open_records, open_systems
from .record import FORMAT, Header, Record
from .writer import RecordWriter

__all__ = ["FORMAT", "Header", "Record", "RecordWriter", "Records", "open_records", "open_systems"]
