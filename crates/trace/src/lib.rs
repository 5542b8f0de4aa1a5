//! Traces of multithreaded programs: events, formats, validation, statistics
