"""Attention as objects: what a model attended to, sentence by sentence, in a file that is read as a stream."""

from .files import Records, open_records, open_systems
from .record import FORMAT, Header, Record
from .writer import RecordWriter

__all__ = ["FORMAT", "Header", "Record", "RecordWriter", "Records", "open_records", "open_systems"]
