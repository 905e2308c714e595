//! Journals are replayed as they are, and a change in one is found where it is.
