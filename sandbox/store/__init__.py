"""An in-memory, multi-version object store with watches."""

from sandbox.store.entry import Entry, EventType, StoreEvent
from sandbox.store.store import Expired, Store, StoreConflict, StoreError, StoreExists, StoreMissing, TooNew

__all__ = [
    "Entry",
    "EventType",
    "Expired",
    "Store",
    "StoreConflict",
    "StoreError",
    "StoreEvent",
    "StoreExists",
    "StoreMissing",
    "TooNew",
]
